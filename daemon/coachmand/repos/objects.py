"""Trees as bytes: names that are not text stay what they are."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pygit2
from pygit2.enums import ObjectType

from coachmand.repos import names
from coachmand.repos.errors import FAILED, UNKNOWN_REVISION, UNSUPPORTED, RepoError

FOLDER, FILE, PROGRAM, LINK, SUBMODULE = b"40000", b"100644", b"100755", b"120000", b"160000"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

# A mode and the twenty bytes of an object's id.
Entry = tuple[bytes, bytes]
# A full path and what is there.
Item = tuple[bytes, Entry]
_OID_BYTES = 20


def tree_entries(repo: Any, tree: bytes) -> dict[bytes, Entry]:
    """The entries of one tree by name; modes are normalized to the five that git writes."""
    kind, data = repo.read(pygit2.Oid(raw=tree))
    if kind != ObjectType.TREE:
        raise RepoError(FAILED, f"cannot read tree {tree.hex()}: it is no tree")
    return dict(_parse(data))


def _parse(data: bytes) -> Iterator[tuple[bytes, Entry]]:
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        end = data.index(b"\0", space)
        stop = end + 1 + _OID_BYTES
        yield data[space + 1 : end], (_normal_mode(data[at:space]), data[end + 1 : stop])
        at = stop


def _normal_mode(mode: bytes) -> bytes:
    number = int(mode, 8)
    if number & 0o170000 == 0o100000:
        return PROGRAM if number & 0o100 else FILE
    return b"%o" % number


def write_tree(repo: Any, entries: Mapping[bytes, Entry]) -> bytes:
    """Store a tree and return its id. Order is git's: a directory sorts as if it ended in /."""
    ordered = sorted(
        entries.items(), key=lambda item: item[0] + b"/" if item[1][0] == FOLDER else item[0]
    )
    data = b"".join(b"%s %s\0%s" % (mode, name, oid) for name, (mode, oid) in ordered)
    oid: bytes = repo.write(ObjectType.TREE, data).raw
    return oid


def write_items(repo: Any, items: Iterable[Item]) -> bytes:
    """Store a tree of full paths, folders included, and return its id."""
    folders: dict[bytes, dict[bytes, Entry]] = {b"": {}}
    for path, entry in items:
        folder, _, name = path.rpartition(b"/")
        above = folder
        while above not in folders:
            folders[above] = {}
            above = above.rpartition(b"/")[0]
        folders[folder][name] = entry
    # Deepest first: a folder's id is known before the one above it is written.
    for path in sorted(folders, key=lambda path: path.count(b"/") + bool(path), reverse=True):
        tree = write_tree(repo, folders[path])
        if path:
            above, _, name = path.rpartition(b"/")
            folders[above][name] = (FOLDER, tree)
    return tree


def all_items(repo: Any, tree: bytes) -> list[Item]:
    """Every entry but the folders below ``tree``, sorted by path; a hostile name is an error."""
    return sorted(_walk(repo, tree))


def _walk(repo: Any, tree: bytes) -> Iterator[Item]:
    pending = [(b"", tree)]
    while pending:
        prefix, oid = pending.pop()
        for name, entry in tree_entries(repo, oid).items():
            if not names.is_storable(name):
                raise RepoError(
                    UNSUPPORTED,
                    f"cannot use {tree.hex()}: it holds the name {name!r}, which escapes",
                )
            if entry[0] == FOLDER:
                pending.append((prefix + name + b"/", entry[1]))
            else:
                yield prefix + name, entry


def tree_of(repo: Any, revision: str) -> bytes:
    """The tree of a commit or tree id."""
    try:
        found = repo[revision].peel(pygit2.Tree)
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise RepoError(UNKNOWN_REVISION, f"cannot read {revision}: no such commit") from error
    result: bytes = found.id.raw
    return result
