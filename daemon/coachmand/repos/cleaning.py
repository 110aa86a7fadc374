"""git's rules about an agent's tree, evaluated without libgit2 entering that tree."""

import contextlib
import io
import os
import stat
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ObjectType

from coachmand.repos import beneath, formats, opening

_RULE_FILES = (b".gitignore", formats.ATTRIBUTES_NAME)
_RULE_LIMIT_BYTES = 1 << 20
_CONVERTING_LIMIT_BYTES = 64 << 20


class Rules:
    """Ignore rules and line-end conversion of a tree.

    libgit2 reads rule files by path, would wait for ever on a pipe named
    .gitignore and follow links. So it gets a working tree of its own, in
    ``scratch``, that holds copies of the rule files and nothing else.
    """

    def __init__(self, common_dir: str, scratch: str) -> None:
        self.warnings: list[str] = []
        self._mirror = Path(scratch, "tree")
        self._tracked: bytes | None = None
        self.repo: Any = _open(common_dir, Path(scratch), self._mirror)
        config = self.repo.config
        self.modes = opening.is_true(config, "core.filemode", True)
        self.links = opening.is_true(config, "core.symlinks", True)
        self._converts = (
            opening.converts_line_ends(config) or Path(common_dir, "info", "attributes").is_file()
        )
        self._index_read = False

    def track(self, tree: bytes | None) -> None:
        """Say what is committed: line ends in it are kept as they are."""
        self._tracked = tree

    def learn(self, folder: int, path: bytes, names: list[bytes]) -> None:
        """Take the rule files of an open directory over, before its entries are judged."""
        for name in _RULE_FILES:
            if name not in names:
                continue
            content = beneath.read_small(folder, name, _RULE_LIMIT_BYTES)
            if content is None:
                self.warnings.append(f"{_shown(path, name)}: not read as rules")
                continue
            try:
                _write(self._place(path + b"/" + name if path else name), content)
            except OSError as error:
                self.warnings.append(f"{_shown(path, name)}: not read as rules, {error.strerror}")
                continue
            if name == formats.ATTRIBUTES_NAME:
                self._converts = True
                self._warn_converting(path, content)

    def _warn_converting(self, path: bytes, content: bytes) -> None:
        for declared in formats.converting(content):
            where = _shown(path, formats.ATTRIBUTES_NAME)
            self.warnings.append(f"{where} declares {declared}: files are stored as they are")

    def ignores(self, path: bytes, folder: bool = False) -> bool:
        """Whether an untracked path is ignored."""
        shown = _legible(path)
        return bool(self.repo.path_is_ignored(shown + "/" if folder else shown))

    def store(self, path: bytes, content: bytes, tracked: bytes | None) -> bytes:
        """Write a file's blob as `git add` would and return its id; ``tracked`` exists already."""
        if not self._converts and tracked and pygit2.hash(content).raw == tracked:
            # Writing what exists is slow: libgit2 touches its pack, to save it from pruning.
            return tracked
        if self._converts and len(content) <= _CONVERTING_LIMIT_BYTES:
            with contextlib.suppress(pygit2.GitError, OSError, ValueError):
                return self._store_converted(path, content)
            self.warnings.append(f"{beneath.text(path)}: stored as it is, without conversion")
        return self.store_raw(content)

    def store_raw(self, content: bytes) -> bytes:
        """Write a blob byte for byte and return its id."""
        oid: bytes = self.repo.write(ObjectType.BLOB, content).raw
        return oid

    def store_large(self, descriptor: int, size: int) -> bytes:
        """Write the blob of a large file's first ``size`` bytes, in pieces."""
        oid: bytes = self.repo.create_blob_fromiobase(_FirstBytes(descriptor, size)).raw
        return oid

    def _store_converted(self, path: bytes, content: bytes) -> bytes:
        name = _legible(path)
        self._read_index()
        if self.repo.load_filter_list(name) is None:
            return self.store_raw(content)
        copy = self._place(path)
        kept = copy.exists()
        _write(copy, content)
        try:
            oid: bytes = self.repo.create_blob_fromworkdir(name).raw
        finally:
            if not kept:
                copy.unlink()
        return oid

    def _read_index(self) -> None:
        if not self._index_read and self._tracked is not None:
            self.repo.index.read_tree(pygit2.Oid(raw=self._tracked))
        self._index_read = True

    def _place(self, path: bytes) -> Path:
        return self._mirror / _legible(path)


class _FirstBytes(io.RawIOBase):
    """A file up to the size that it had: one that grows for ever ends all the same."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._left = descriptor, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        chunk = os.read(self._descriptor, min(len(buffer), self._left))
        buffer[: len(chunk)] = chunk
        self._left -= len(chunk)
        return len(chunk)


def _open(common_dir: str, scratch: Path, mirror: Path) -> Any:
    opening.refuse(common_dir)
    admin = scratch / "admin"
    admin.mkdir()
    mirror.mkdir()
    (admin / "HEAD").write_text("ref: refs/heads/none\n")
    (admin / "commondir").write_bytes(os.fsencode(common_dir) + b"\n")
    (admin / "gitdir").write_bytes(os.fsencode(mirror / ".git") + b"\n")
    return opening.open_admin(str(admin), common_dir)


def _write(file: Path, content: bytes) -> None:
    """Write a file and the folders above it; their depth is the agent's choice, so no recursion."""
    missing = []
    folder = file.parent
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir()
    file.write_bytes(content)


def _legible(path: bytes) -> str:
    """A path for calls that take UTF-8 only; a pattern still finds its ending."""
    return path.decode("utf-8", "replace")


def _shown(path: bytes, name: bytes) -> str:
    return beneath.text(path + b"/" + name if path else name)


def stored_mode(rules: Rules, mode: int, tracked: bytes | None) -> bytes:
    """The mode that git stores for a regular file, in repositories that ignore modes too."""
    if tracked == b"120000" and not rules.links:
        return tracked
    if not rules.modes:
        return tracked if tracked in (b"100644", b"100755") else b"100644"
    return b"100755" if mode & stat.S_IXUSR else b"100644"
