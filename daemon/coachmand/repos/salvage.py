"""Before a worktree goes: is everything in it kept by a ref, and if not, make it so.

A salvage record is a commit under ``refs/coachman/salvage/``. Its tree is the
worktree's. Its first parent is the newest record of a run; a second one, where it is
needed, holds the files of the worktree's entry as a tree, and its parents are the
index by stage and the commits that no ref leads to.
"""

import ctypes
import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

import pygit2
from attrs import asdict, define, field, frozen

from coachmand.repos import beneath, entries, names, objects, opening, refs
from coachmand.repos.errors import FAILED, RepoError
from coachmand.repos.records import Salvage
from coachmand.repos.snapshots import CACHE_NAME, MAX_DEPTH, Folder, TreeReader, write_commit
from coachmand.repos.statcache import StatCache

_BLOCK_BYTES = 512
_LOOKS = 4
_MAX_REASONS = 20
_libc = ctypes.CDLL(None, use_errno=True)


def salvage(  # noqa: PLR0913 - what is compared with what, each by keyword
    *,
    common: str,
    tree_path: str,
    scratch: str,
    run_refs: Sequence[str],
    base: str,
    ref: str,
    message: str,
    declared: Sequence[str],
    write: bool,
) -> dict[str, Any]:
    """Compare a worktree and its entry with what refs keep; see `Salvage`.

    ``run_refs`` are the task's records, newest first, ``declared`` shell patterns of
    ignored paths that are work all the same. With ``write``, what no ref keeps is
    committed under ``ref``, and on return all of it has reached the disk.
    """
    repo = opening.open_bare(common)
    kept, before = _kept(repo, run_refs), _kept(repo, [ref])
    site = _Site(repo, common, tree_path, scratch, kept[0] if kept else base, declared)
    tree, seen = site.read()
    entry, refused = site.entry(seen)
    at = next((oid for oid in (*kept, *before, base) if _tree_of(repo, oid) == tree), None)
    loose = entries.unreached(repo, {*entry.commits, *([] if kept else [base])})
    known = {tree, *_trees(repo, (base, *kept, *entry.commits, *_family(repo, before)))}
    beside = _Beside.of(repo, entry, loose, known)
    differs = (*(seen.differs() if at is None else ()), *beside.differs)
    written = None
    if differs and write and not refused:
        wanted = [site.parent, *([beside.commit(repo)] if beside.differs else []), *before]
        written = write_commit(repo, tree, list(dict.fromkeys(wanted)), message)
        refs.move(repo, common, ref, written)
    if write:
        _sync(common)
    return asdict(
        Salvage(
            site.admin,
            written or at or site.parent,
            written,
            differs,
            tuple(refused[:_MAX_REASONS]),
            seen.bytes,
            seen.ignored_files,
            seen.ignored_bytes,
        )
    )


@frozen
class _Beside:
    """What an entry holds, as trees; ``differs`` says what of it is in no ref."""

    notes: bytes
    stages: dict[int, bytes]
    loose: list[str]
    differs: tuple[str, ...]

    @classmethod
    def of(cls, repo: Any, entry: entries.Entry, loose: list[str], known: set[bytes]) -> Self:
        stages = {stage: objects.write_items(repo, items) for stage, items in entry.stages.items()}
        notes = entries.write_notes(repo, entry.notes)
        found = {
            "an index that is in no commit": not known.issuperset(stages.values()),
            "commits that no ref leads to": bool(loose),
            "notes of a merge, a rebase or a commit": entry.speaks and notes not in known,
        }
        return cls(notes, stages, loose, tuple(what for what, differs in found.items() if differs))

    def commit(self, repo: Any) -> str:
        """The commit that keeps all of it."""
        parents = [
            write_commit(repo, tree, (), f"coachman: stage {stage} of the index")
            for stage, tree in sorted(self.stages.items())
        ]
        about = "coachman: the entry of a worktree"
        return write_commit(repo, self.notes, (*parents, *self.loose), about)


@define
class _Site:
    """A worktree as it lies there; tree, entry or both may be gone."""

    repo: Any
    common: str
    tree_path: str
    scratch: str
    parent: str
    declared: Sequence[str]
    admin: str | None = None
    _known: entries.Entry = field(factory=entries.Entry)

    def __attrs_post_init__(self) -> None:
        self.admin = entries.find(self.common, self.tree_path)
        if self.admin:
            self._known = entries.read(self.admin)

    def read(self) -> tuple[bytes, "WholeReader"]:
        """Store the tree, again until it is the same twice: nobody writes to it any more."""
        cache = StatCache.load(Path(self.admin, CACHE_NAME)) if self.admin else StatCache()
        before = None
        for look in range(_LOOKS):
            reader = self._reader(look, cache)
            tree = self._stored(reader)
            if tree == before:
                return tree, reader
            before, cache = tree, StatCache(known=reader.cache.fresh)
        raise RepoError(
            FAILED,
            f"cannot tell what is in {self.tree_path}: it is being written to",
            "end what works there, then clean up again",
        )

    def _reader(self, look: int, cache: StatCache) -> "WholeReader":
        place = Path(self.scratch, str(look))
        place.mkdir()
        staged = {path for items in self._known.stages.values() for path, _ in items}
        return WholeReader(self.common, str(place), (self.parent,), cache, staged, self.declared)

    def _stored(self, reader: "WholeReader") -> bytes:
        if not os.path.lexists(self.tree_path):
            assert reader.tracked_tree is not None
            return reader.tracked_tree
        return reader.read(self.tree_path)

    def entry(self, seen: "WholeReader") -> tuple[entries.Entry, list[str]]:
        """The entry, and why the worktree must stay, if it must."""
        refused = [*self._known.refused, *seen.refused]
        pointer = Path(self.tree_path, ".git")
        if os.path.lexists(pointer) and not self._is_own(pointer):
            refused.append(".git: it is not coachman's, but a repository or a link of its own")
        return self._known, refused

    def _is_own(self, pointer: Path) -> bool:
        if pointer.is_symlink() or not pointer.is_file():
            return False
        named = pointer.read_bytes()[:8192].removeprefix(b"gitdir:").strip()
        return self.admin is None or named == beneath.raw(self.admin)


class WholeReader(TreeReader):
    """Reads all that is someone's work: also what is staged or declared though it is ignored.

    ``refused`` names what no tree can hold. What is ignored is counted.
    """

    def __init__(
        self,
        common: str,
        scratch: str,
        parents: tuple[str, ...],
        cache: StatCache,
        staged: set[bytes],
        declared: Sequence[str],
    ) -> None:
        super().__init__(common, scratch, parents, cache)
        self.refused: list[str] = []
        self.bytes = self.ignored_files = self.ignored_bytes = 0
        self._staged = staged
        self._declared = [pattern.strip("/") for pattern in declared]
        self._ignored: set[bytes] = set()
        self._extra = 0

    def differs(self) -> list[str]:
        """What a tree that no record equals has beyond them."""
        more = f", {self._extra} of them ignored" if self._extra else ""
        return [f"files that no run recorded{more}"]

    def _read_entry(self, descriptor: int, folder: Folder, name: bytes) -> Folder | None:
        path = folder.below(name)
        inside = folder.path in self._ignored
        if names.is_git_dir_name(name) and path != b".git" and not inside:
            self.refused.append(f"{beneath.text(path)}: a repository inside the tree")
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self.bytes += status.st_blocks * _BLOCK_BYTES
        return super()._read_entry(descriptor, folder, name)

    def _passes_over(self, path: bytes, status: os.stat_result) -> bool:
        folder = path.rpartition(b"/")[0]
        is_folder = stat.S_ISDIR(status.st_mode)
        ignored = (
            # Below an ignored folder everything is.
            folder in self._ignored or self.rules.ignores(path, folder=is_folder)
        )
        if is_folder:
            if ignored:
                self._ignored.add(path)
            # Something declared may lie below.
            return False
        if not ignored:
            return False
        if path in self._staged or self._is_declared(path):
            self._extra += 1
            return False
        self.ignored_files += 1
        self.ignored_bytes += status.st_blocks * _BLOCK_BYTES
        return True

    def _is_declared(self, path: bytes) -> bool:
        parts = beneath.text(path).split("/")
        above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        return any(
            fnmatchcase(candidate, pattern)
            for pattern in self._declared
            for candidate in (above if "/" in pattern else parts)
        )

    def _enter(self, folder: Folder, name: bytes, tracked: objects.Entry | None) -> Folder | None:
        path = folder.below(name)
        if tracked and tracked[0] == objects.SUBMODULE:
            # Left empty by coachman: what somebody put there is kept as plain files.
            return Folder(path, folder, None, {}, otherwise=tracked)
        ignored = path in self._ignored or folder.path in self._ignored
        if ignored and (len(path) >= beneath.PATH_MAX_BYTES or path.count(b"/") >= MAX_DEPTH):
            return None
        return super()._enter(folder, name, tracked)

    def _leave_out(self, path: bytes, why: str) -> None:
        super()._leave_out(path, why)
        if path.rpartition(b"/")[0] not in self._ignored and path not in self._ignored:
            self.refused.append(f"{beneath.text(path)}: {why}")


def _kept(repo: Any, run_refs: Sequence[str]) -> list[str]:
    """The commits of those refs that there are."""
    found = []
    for name in run_refs:
        try:
            found.append(str(repo.references[name].peel(pygit2.Commit).id))
        except (KeyError, ValueError, pygit2.GitError):
            continue
    return found


def _tree_of(repo: Any, oid: str) -> bytes | None:
    try:
        return objects.tree_of(repo, oid)
    except RepoError:
        return None


def _trees(repo: Any, commits: Sequence[str]) -> set[bytes]:
    return {tree for tree in (_tree_of(repo, oid) for oid in commits) if tree}


def _family(repo: Any, commits: Sequence[str]) -> list[str]:
    """Commits, their parents and those of these: all that a salvage record is made of."""
    found = list(commits)
    for _ in range(2):
        found += [str(parent) for oid in found for parent in repo[pygit2.Oid(hex=oid)].parent_ids]
    return list(dict.fromkeys(found))


def _sync(common: str) -> None:
    """Bring objects and refs to the disk: what they replace is deleted next."""
    descriptor = os.open(common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor):
            error = ctypes.get_errno()
            raise RepoError(FAILED, f"cannot bring {common} to the disk: {os.strerror(error)}")
    finally:
        os.close(descriptor)
