"""What a worktree's entry in its repository holds beside the tree: the index, heads, notes.

A sandbox cannot write there, but a person who works in the worktree can: what they
staged, committed or began to merge is perhaps in no ref.
"""

import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pygit2
from attrs import field, frozen
from pygit2.enums import ObjectType, SortMode

from coachmand.repos import beneath, objects
from coachmand.repos.errors import FAILED, RepoError
from coachmand.repos.objects import Item

# coachman's own, and what only says where things are.
_OWN = re.compile(rb"gitdir|commondir|locked|index|coachman-files(\..*)?")
# Every worktree has these, or they tell no more than the commits that they name.
_QUIET = frozenset((b"HEAD", b"ORIG_HEAD", b"FETCH_HEAD", b"logs/HEAD"))
_MAX_NOTE_BYTES = 64 << 20
_COMMIT = re.compile(rb"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")

_HEADER_BYTES, _FIXED_BYTES, _CHECKSUM_BYTES = 12, 62, 20
_MODE_AT, _OID_AT, _FLAGS_AT = 24, 40, 60
_EXTENDED, _INTENT_TO_ADD = 0x4000, 0x2000
_EXTENDED_VERSION, _PREFIXED_VERSION = 3, 4
_FOREIGN_EXTENSIONS = (b"link", b"sdir")


@frozen
class Entry:
    """``stages`` are the index by stage, 0 first; ``notes`` the other files by name.

    ``refused`` says what of it can be kept nowhere.
    """

    stages: dict[int, list[Item]] = field(factory=dict)
    notes: dict[bytes, bytes] = field(factory=dict)
    refused: tuple[str, ...] = ()

    @property
    def speaks(self) -> bool:
        """Whether its notes are more than every worktree has: a merge, a rebase, a message."""
        return not _QUIET.issuperset(self.notes)

    @property
    def commits(self) -> set[str]:
        """Every id that a note names; some may be of no commit."""
        return {found.decode() for note in self.notes.values() for found in _COMMIT.findall(note)}


def find(common: str, tree_path: str) -> str | None:
    """The entry that names a tree, if there is one."""
    entries = Path(common, "worktrees")
    wanted = beneath.raw(f"{tree_path}/.git")
    for entry in sorted(entries.iterdir()) if entries.is_dir() else ():
        try:
            if (entry / "gitdir").read_bytes().rstrip(b"\n") == wanted:
                return str(entry)
        except OSError:
            continue
    return None


def read(admin_dir: str) -> Entry:
    """All that an entry holds. Raises RepoError for an index that cannot be understood."""
    notes: dict[bytes, bytes] = {}
    refused: list[str] = []
    root = beneath.open_root(beneath.raw(admin_dir))
    try:
        for path, descriptor in beneath.files(root, lambda path: refused.append(_unread(path))):
            if path.startswith(b"modules/"):
                refused.append("a submodule's own repository lies in its entry")
            elif path.endswith(b".lock"):
                refused.append(f"a git command is at work there, or died: {beneath.text(path)}")
            elif not _OWN.fullmatch(path):
                _take(descriptor, path, notes, refused)
    finally:
        os.close(root)
    index = Path(admin_dir, "index")
    stages = parse_index(index.read_bytes()) if index.is_file() else {}
    return Entry(stages, notes, tuple(dict.fromkeys(refused)))


def _take(descriptor: int, path: bytes, notes: dict[bytes, bytes], refused: list[str]) -> None:
    with open(descriptor, "rb", closefd=False) as file:
        content = file.read(_MAX_NOTE_BYTES + 1)
    if len(content) > _MAX_NOTE_BYTES:
        refused.append(f"too large to be kept: {beneath.text(path)} of its entry")
    notes[path] = content


def _unread(path: bytes) -> str:
    return f"cannot be read: {beneath.text(path)} of its entry"


def parse_index(data: bytes) -> dict[int, list[Item]]:
    """The items of git's index (versions 2 to 4) by stage; what is only intended is left out."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, _EXTENDED_VERSION, _PREFIXED_VERSION):
        raise RepoError(FAILED, f"cannot read the index: its version is {version}")
    stages: dict[int, list[Item]] = {}
    at, name = _HEADER_BYTES, b""
    for _ in range(count):
        mode, flags = _number(data, at + _MODE_AT, 4), _number(data, at + _FLAGS_AT, 2)
        oid = data[at + _OID_AT : at + _FLAGS_AT]
        intended, begin = False, at + _FIXED_BYTES
        if flags & _EXTENDED and version >= _EXTENDED_VERSION:
            intended = bool(_number(data, begin, 2) & _INTENT_TO_ADD)
            begin += 2
        name, at = _name(data, at, begin, name if version == _PREFIXED_VERSION else None)
        if not intended:
            stages.setdefault(flags >> 12 & 3, []).append((name, (b"%o" % mode, oid)))
    _check_extensions(data, at)
    return stages


def _name(data: bytes, start: int, begin: int, before: bytes | None) -> tuple[bytes, int]:
    """An entry's name and where the next entry starts; ``before`` is the name that it shortens."""
    if before is None:
        end = data.index(b"\0", begin)
        # Padded with at least one NUL to a multiple of eight.
        return data[begin:end], start + (end - start + 8) // 8 * 8
    byte = data[begin]
    cut = byte & 0x7F
    while byte & 0x80:
        begin += 1
        byte = data[begin]
        cut = (cut + 1 << 7) + (byte & 0x7F)
    end = data.index(b"\0", begin + 1)
    return before[: len(before) - cut] + data[begin + 1 : end], end + 1


def _check_extensions(data: bytes, at: int) -> None:
    while at + 8 <= len(data) - _CHECKSUM_BYTES:
        name = data[at : at + 4]
        if name in _FOREIGN_EXTENSIONS:
            raise RepoError(FAILED, "cannot read the index: it is split or sparse")
        at += 8 + _number(data, at + 4, 4)


def _number(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def unreached(repo: Any, candidates: Iterable[str]) -> list[str]:
    """Of the ids given, the commits to keep so that all of them are: no ref leads to them."""
    known = [oid for oid in candidates if _is_commit(repo, oid)]
    if not known:
        return []
    walk = repo.walk(None, SortMode.TOPOLOGICAL)
    for oid in known:
        walk.push(pygit2.Oid(hex=oid))
    for target in _targets(repo):
        walk.hide(target)
    heads, covered = [], set()
    # Children come before their parents: what none has covered yet is a head.
    for commit in walk:
        if commit.id not in covered:
            heads.append(str(commit.id))
        covered.update(commit.parent_ids)
    return heads


def _is_commit(repo: Any, oid: str) -> bool:
    try:
        return bool(repo[pygit2.Oid(hex=oid)].type == ObjectType.COMMIT)
    except (KeyError, ValueError, pygit2.GitError):
        return False


def _targets(repo: Any) -> Iterable[Any]:
    """The commits that refs lead to; a broken ref leads nowhere."""
    for name in repo.references:
        try:
            yield repo.references[name].peel(pygit2.Commit).id
        except (KeyError, ValueError, pygit2.GitError):
            continue


def write_notes(repo: Any, notes: dict[bytes, bytes]) -> bytes:
    """The notes as a tree; its id."""
    items: list[Item] = [
        (path, (objects.FILE, repo.write(ObjectType.BLOB, content).raw))
        for path, content in notes.items()
    ]
    return objects.write_items(repo, items)
