"""Store an agent's tree as a commit, reading every file below a held directory."""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pygit2
from attrs import asdict, define, field

from coachmand.repos import beneath, names, objects, refs
from coachmand.repos.cleaning import Rules, stored_mode
from coachmand.repos.errors import WORKTREE_MOVED, RepoError
from coachmand.repos.records import Snapshot
from coachmand.repos.statcache import StatCache, facts_of

# Kept by coachman in the worktree's entry, which no sandbox can write.
CACHE_NAME = "coachman-files"

MAX_FILE_BYTES = 1 << 30
_WHOLE_BYTES = 32 << 20
# A file may grow after its size was read; what is beyond comes with the next snapshot.
_GROWTH_BYTES = 1 << 12
# Judging one path costs a look at each folder above it.
MAX_DEPTH = 256
_MAX_REPORTED, _MAX_LEFT_OUT = 50, 1000
_AUTHOR = ("coachman", "coachman@localhost")


@define
class Folder:
    """One directory of the tree while it is read; ``stored`` is its id in the parent commit.

    ``otherwise`` is what stands in its place when nothing in it is stored.
    """

    path: bytes
    parent: "Folder | None"
    stored: bytes | None
    tracked: dict[bytes, objects.Entry]
    entries: dict[bytes, objects.Entry] = field(factory=dict)
    otherwise: objects.Entry | None = None

    def below(self, name: bytes) -> bytes:
        return self.path + b"/" + name if self.path else name


def snapshot(
    *,
    common: str,
    admin_dir: str,
    tree_path: str,
    scratch: str,
    ref: str | None,
    parents: tuple[str, ...],
    message: str,
) -> dict[str, Any]:
    """Commit what is in ``tree_path`` and not ignored, deletions included; see `Snapshot`.

    ``parents[0]`` says what is tracked. With ``ref``, below refs/coachman/, that
    ref is moved to the commit by compare-and-set. Raises RepoError.
    """
    check_entry(admin_dir, tree_path)
    cache_file = Path(admin_dir, CACHE_NAME)
    reader = TreeReader(common, scratch, parents, StatCache.load(cache_file))
    tree = reader.read(tree_path)
    reader.cache.save(cache_file)
    changed = tree != reader.tracked_tree
    repo = reader.rules.repo
    commit = parents[0] if not changed and parents else write_commit(repo, tree, parents, message)
    if ref:
        refs.move(repo, common, ref, commit)
    return asdict(
        Snapshot(
            commit,
            tree.hex(),
            changed,
            _bounded(reader.rules.warnings + reader.warnings),
            tuple(reader.left_out[:_MAX_LEFT_OUT]),
        )
    )


def check_entry(admin_dir: str, tree_path: str) -> None:
    """Refuse a tree that its entry does not name: one was moved or replaced."""
    try:
        named = Path(admin_dir, "gitdir").read_bytes().rstrip(b"\n")
    except OSError as error:
        raise _moved(tree_path, f"{admin_dir} is gone") from error
    if named != beneath.raw(f"{tree_path}/.git"):
        raise _moved(tree_path, f"its entry {admin_dir} names {beneath.text(named)}")


def _moved(tree_path: str, why: str) -> RepoError:
    return RepoError(
        WORKTREE_MOVED,
        f"cannot use the worktree {tree_path}: {why}",
        "its files are untouched; start a new task from the last snapshot",
    )


def write_commit(repo: Any, tree: bytes, parents: Sequence[str], message: str) -> str:
    """Commit a tree in coachman's name, under no ref; the commit's id."""
    author = pygit2.Signature(*_AUTHOR)
    oid = repo.create_commit(
        None, author, author, message, pygit2.Oid(raw=tree), [pygit2.Oid(hex=p) for p in parents]
    )
    return str(oid)


def _bounded(warnings: list[str]) -> tuple[str, ...]:
    more = len(warnings) - _MAX_REPORTED
    return (*warnings[:_MAX_REPORTED], *([f"and {more} more"] if more > 0 else []))


def _is_tracked(tracked: objects.Entry | None, is_folder: bool) -> bool:
    if tracked is None:
        return False
    # A file that became a folder was not that folder.
    return not is_folder or tracked[0] in (objects.FOLDER, objects.SUBMODULE)


class TreeReader:
    """Walks a tree top down, then stores its directories bottom up."""

    def __init__(
        self, common: str, scratch: str, parents: tuple[str, ...], cache: StatCache
    ) -> None:
        self.cache = cache
        self.warnings: list[str] = []
        self.left_out: list[str] = []
        self.rules = Rules(common, scratch)
        repo = self.rules.repo
        self.tracked_tree = objects.tree_of(repo, parents[0]) if parents else None
        self.rules.track(self.tracked_tree)

    def read(self, tree_path: str) -> bytes:
        """Store the tree and return its id."""
        root = beneath.open_root(beneath.raw(tree_path))
        try:
            folders = self._walk(root)
        finally:
            os.close(root)
        return self._store_folders(folders)

    def _walk(self, root: int) -> list[Folder]:
        top = Folder(b"", None, self.tracked_tree, self._tracked(self.tracked_tree))
        folders, pending = [top], [top]
        while pending:
            found = self._read_folder(root, pending.pop())
            folders += found
            pending += found
        return folders

    def _read_folder(self, root: int, folder: Folder) -> list[Folder]:
        try:
            descriptor = beneath.open_folder(root, folder.path)
        except OSError as error:
            self._keep_folder(folder, error)
            return []
        try:
            listed = beneath.names_in(descriptor)
            self.rules.learn(descriptor, folder.path, listed)
            below = [self._read_entry(descriptor, folder, name) for name in listed]
        finally:
            os.close(descriptor)
        return [found for found in below if found]

    def _read_entry(self, descriptor: int, folder: Folder, name: bytes) -> Folder | None:
        path, tracked = folder.below(name), folder.tracked.get(name)
        if names.is_git_dir_name(name):
            if folder.parent or name != b".git":
                self.warnings.append(f"{beneath.text(path)}: not stored, git allows no such name")
            return None
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            if not _is_tracked(tracked, is_folder) and self._passes_over(path, status):
                return None
            if is_folder:
                return self._enter(folder, name, tracked)
            entry = self._store_entry(descriptor, name, path, status, tracked)
        except OSError as error:
            self._leave_out(path, error.strerror or "cannot be read")
            entry = tracked
        if entry:
            folder.entries[name] = entry
        return None

    def _passes_over(self, path: bytes, status: os.stat_result) -> bool:
        """Whether what is not tracked is left out on purpose."""
        return self.rules.ignores(path, folder=stat.S_ISDIR(status.st_mode))

    def _enter(self, folder: Folder, name: bytes, tracked: objects.Entry | None) -> Folder | None:
        if tracked and tracked[0] == objects.SUBMODULE:
            folder.entries[name] = tracked
            return None
        path = folder.below(name)
        stored = tracked[1] if tracked and tracked[0] == objects.FOLDER else None
        if len(path) >= beneath.PATH_MAX_BYTES or path.count(b"/") >= MAX_DEPTH:
            self._leave_out(path, f"it is deeper than {MAX_DEPTH} folders or its path too long")
            if tracked:
                folder.entries[name] = tracked
            return None
        return Folder(path, folder, stored, self._tracked(stored))

    def _store_entry(
        self,
        descriptor: int,
        name: bytes,
        path: bytes,
        status: os.stat_result,
        tracked: objects.Entry | None,
    ) -> objects.Entry | None:
        """The entry to store for what is no directory; the tracked one when it cannot be."""
        if stat.S_ISLNK(status.st_mode):
            if name.lower() == b".gitmodules":
                self._leave_out(path, "git allows no link of this name")
                return tracked
            target = os.readlink(name, dir_fd=descriptor)
            return objects.LINK, self.rules.store_raw(os.fsencode(target))
        if not stat.S_ISREG(status.st_mode):
            self._leave_out(path, "it is neither a file nor a link")
            return None
        facts = facts_of(status)
        oid = self.cache.find(path, facts)
        if oid:
            self.cache.remember(path, facts, oid)
        else:
            oid = self._store_file(descriptor, name, path, tracked and tracked[1])
        if oid is None:
            return tracked
        return stored_mode(self.rules, status.st_mode, tracked and tracked[0]), oid

    def _store_file(
        self, folder: int, name: bytes, path: bytes, known: bytes | None
    ) -> bytes | None:
        descriptor = beneath.open_file(folder, name)
        if descriptor is None:
            self._leave_out(path, "it changed while it was read")
            return None
        try:
            facts = facts_of(os.fstat(descriptor))
            oid = self._store_content(descriptor, path, facts[1], known)
        finally:
            os.close(descriptor)
        if oid:
            self.cache.remember(path, facts, oid)
        return oid

    def _store_content(
        self, descriptor: int, path: bytes, size: int, known: bytes | None
    ) -> bytes | None:
        if size > MAX_FILE_BYTES:
            self._leave_out(path, f"it is larger than {MAX_FILE_BYTES >> 20} MiB")
            return None
        if size > _WHOLE_BYTES:
            return self.rules.store_large(descriptor, size)
        with open(descriptor, "rb", closefd=False) as file:
            return self.rules.store(path, file.read(size + _GROWTH_BYTES), known)

    def _leave_out(self, path: bytes, why: str) -> None:
        self.left_out.append(beneath.text(path))
        self.warnings.append(f"{beneath.text(path)}: left out, {why}")

    def _keep_folder(self, folder: Folder, error: OSError) -> None:
        """A directory that cannot be read stays as it was: that is no deletion."""
        if error.errno == errno.ENOENT:
            return
        self._leave_out(folder.path, error.strerror or "cannot be read")
        folder.entries = dict(folder.tracked)

    def _tracked(self, tree: bytes | None) -> dict[bytes, objects.Entry]:
        return objects.tree_entries(self.rules.repo, tree) if tree else {}

    def _store_folders(self, folders: list[Folder]) -> bytes:
        for folder in reversed(folders):
            same = folder.stored is not None and folder.entries == folder.tracked
            tree = folder.stored if same else None
            if folder.parent is None:
                return tree or objects.write_tree(self.rules.repo, folder.entries)
            if folder.entries:
                tree = tree or objects.write_tree(self.rules.repo, folder.entries)
                name = folder.path.rpartition(b"/")[2]
                folder.parent.entries[name] = (objects.FOLDER, tree)
            elif folder.otherwise:
                folder.parent.entries[folder.path.rpartition(b"/")[2]] = folder.otherwise
        raise AssertionError("a tree has a top")
