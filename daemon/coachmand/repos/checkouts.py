"""Fill a fresh tree.

Where nothing is converted, that is only writing files: libgit2 needs more than
twice git's time for it, two processes that do no more than that need about
the same.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import CheckoutStrategy

from coachmand.repos import formats, gitindex, objects, opening
from coachmand.repos.beneath import raw
from coachmand.repos.errors import FAILED, RepoError
from coachmand.repos.gitindex import Stat
from coachmand.repos.lineage import die_with
from coachmand.repos.objects import Item
from coachmand.repos.statcache import StatCache

# Below this a second process costs more than it saves.
_FILES_PER_WRITER = 1000
_MAX_WRITERS = 4

_READABLE, _RUNNABLE = 0o666, 0o777


def fill(
    repo: Any,
    tree: bytes,
    items: Sequence[Item],
    *,
    common: str,
    admin_dir: str,
    tree_path: str,
) -> StatCache:
    """Check a tree out where only `.git` is, write the entry's index, return what was stored."""
    root = raw(tree_path)
    if _converts(repo.config, common, items):
        repo.checkout_tree(repo[pygit2.Oid(raw=tree)], strategy=CheckoutStrategy.FORCE)
        stats = [Stat.of(os.lstat(root + b"/" + path)) for path, _ in items]
    else:
        stats = _write_all(repo, root, items)
        gitindex.write(Path(admin_dir, "index"), items, stats)
    return _cache(items, stats)


def _converts(config: Any, common: str, items: Sequence[Item]) -> bool:
    """Whether any file may differ from its blob; then libgit2 knows how."""
    return (
        opening.converts_line_ends(config)
        or not opening.is_true(config, "core.symlinks", True)
        or os.path.lexists(f"{common}/info/attributes")
        or any(path.endswith(formats.ATTRIBUTES_NAME) for path, _ in items)
    )


def _cache(items: Sequence[Item], stats: Sequence[Stat]) -> StatCache:
    cache = StatCache()
    for (path, (mode, oid)), stat in zip(items, stats, strict=True):
        if mode in (objects.FILE, objects.PROGRAM):
            cache.remember(path, stat.facts, oid)
    return cache


def _write_all(repo: Any, root: bytes, items: Sequence[Item]) -> list[Stat]:
    # libgit2 hashes all that it reads again, which is most of its time; git does not, either.
    pygit2.settings.enable_strict_hash_verification(False)
    for folder in sorted(_folders(items)):
        os.mkdir(root + b"/" + folder, _RUNNABLE)
    writers = min(len(items) // _FILES_PER_WRITER + 1, os.cpu_count() or 1, _MAX_WRITERS)
    size = -(-len(items) // writers) or 1
    first, *others = [items[at : at + size] for at in range(0, len(items), size)] or [[]]
    helpers = [_Helper(repo, root, part) for part in others]
    stats = [_write(repo, root, item) for item in first]
    for helper in helpers:
        stats += helper.result()
    # Links come last: no file is ever written through one.
    return [
        _link(repo, root, item) if item[1][0] == objects.LINK else stat
        for item, stat in zip(items, stats, strict=True)
    ]


def _folders(items: Sequence[Item]) -> set[bytes]:
    found: set[bytes] = set()
    for path, (mode, _) in items:
        folder = path if mode == objects.SUBMODULE else path.rpartition(b"/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition(b"/")[0]
    return found


class _Helper:
    """A process of its own that writes a part of the files."""

    def __init__(self, repo: Any, root: bytes, items: Sequence[Item]) -> None:
        self._reading, writing = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                die_with(parent)
                with open(writing, "wb") as pipe:
                    for item in items:
                        pipe.write(_write(repo, root, item).packed())
            except BaseException:
                os._exit(1)
            os._exit(0)
        os.close(writing)

    def result(self) -> Iterator[Stat]:
        """What it wrote, when it has. Raises RepoError if it failed."""
        with open(self._reading, "rb") as pipe:
            packed = pipe.read()
        _, status = os.waitpid(self._pid, 0)
        if status:
            raise RepoError(FAILED, "cannot check out: writing files failed", "is the disk full?")
        return map(Stat.unpacked, _records(packed))


def _records(packed: bytes) -> Iterator[bytes]:
    size = Stat.SIZE
    return (packed[at : at + size] for at in range(0, len(packed), size))


def _write(repo: Any, root: bytes, item: Item) -> Stat:
    path, (kind, oid) = item
    if kind in (objects.LINK, objects.SUBMODULE):
        return Stat.unknown()
    mode = _RUNNABLE if kind == objects.PROGRAM else _READABLE
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(root + b"/" + path, flags, mode)
    try:
        rest = memoryview(repo.read(pygit2.Oid(raw=oid))[1])
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        return Stat.of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _link(repo: Any, root: bytes, item: Item) -> Stat:
    path, (_, oid) = item
    where = root + b"/" + path
    os.symlink(repo.read(pygit2.Oid(raw=oid))[1], where)
    return Stat.of(os.lstat(where))
