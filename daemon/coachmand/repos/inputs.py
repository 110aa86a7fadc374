"""Copy what a caller hands to a run, digested on the way: whole and unchanged, or not at all."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

from coachmand.repos import beneath
from coachmand.repos.errors import TOO_LARGE, UNFIT, RepoError
from coachmand.repos.unsynced import Unsynced

MANIFEST = "manifest.json"
MAX_FILES = 100_000
_SOURCE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_INSIDE = "take it out of the directory, of which only files and directories are taken"
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISLNK, "it is a symbolic link"),
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)


def copy_inputs(sources: list[dict[str, str]], target: str) -> list[dict[str, Any]]:
    """Copy each ``path`` to its ``name`` in ``target``, and say in the manifest what is there.

    Raises RepoError for what is missing, a link, no regular file or directory, or changes
    meanwhile; what was copied by then is the caller's to remove.
    """
    into = beneath.open_root(beneath.raw(target))
    try:
        with Unsynced() as copies:
            return [
                _copy(beneath.raw(each["path"]), each["name"], into, copies) for each in sources
            ]
    finally:
        os.close(into)


def fault_of(path: bytes | str, folder: int | None = None) -> str | None:
    """Why something can be no input; None for a regular file or a directory."""
    try:
        mode = os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode
    except OSError as error:
        return str(error.strerror).lower()
    return next((words for matches, words in _KINDS if matches(mode)), None)


def _copy(path: bytes, name: str, into: int, copies: Unsynced) -> dict[str, Any]:
    target = beneath.raw(name)
    source = _opened(path, None, path)
    try:
        if stat.S_ISDIR(os.fstat(source).st_mode):
            found = _copy_tree(source, path, target, into, copies)
            files = sorted(found, key=lambda row: row["path"])
            listed = "".join(f"{row['sha256']}  {row['path']}\n" for row in files)
            sha256 = hashlib.sha256(beneath.raw(listed)).hexdigest()
            size = sum(row["size"] for row in files)
            row = {"name": name, "kind": "directory", "size": size, "sha256": sha256}
            return {**row, "files": files}
        return {"name": name, "kind": "file", **_copy_file(source, path, target, into, copies)}
    finally:
        os.close(source)


def _copy_tree(
    source: int, path: bytes, target: bytes, into: int, copies: Unsynced
) -> Iterator[dict[str, Any]]:
    """Each file of a directory; what is to come is held by path, whatever the tree's depth."""
    pending, count = [b""], 0
    while pending:
        below = pending.pop()
        shown = os.path.join(path, below)
        try:
            folder = beneath.open_folder(source, below)
            os.mkdir(os.path.join(target, below).rstrip(b"/"), 0o700, dir_fd=into)
        except OSError as error:
            raise _refused(shown, str(error.strerror).lower()) from error
        try:
            before = _facts(folder)
            for name in beneath.names_in(folder):
                inner = os.path.join(below, name)
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    pending.append(inner)
                    continue
                count += 1
                if count > MAX_FILES:
                    raise RepoError(TOO_LARGE, f"{_text(path)} holds over {MAX_FILES} files")
                file = _opened(name, folder, os.path.join(path, inner))
                try:
                    at = os.path.join(target, inner)
                    row = _copy_file(file, os.path.join(path, inner), at, into, copies)
                finally:
                    os.close(file)
                yield {"path": beneath.text(inner), **row}
            if _facts(folder) != before:
                raise _refused(shown, "it changed while it was copied")
        finally:
            os.close(folder)


def _opened(name: bytes, folder: int | None, shown: bytes) -> int:
    try:
        descriptor = os.open(name, _SOURCE, dir_fd=folder)
    except OSError as error:
        why = fault_of(name, folder) or str(error.strerror).lower()
        raise _refused(shown, why, _INSIDE if folder is not None else None) from error
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or (folder is None and stat.S_ISDIR(mode))):
        os.close(descriptor)
        hint = _INSIDE if folder is not None else None
        raise _refused(shown, fault_of(name, folder) or "it is no regular file", hint)
    return descriptor


def _copy_file(
    source: int, path: bytes, target: bytes, into: int, copies: Unsynced
) -> dict[str, Any]:
    """Its size and digest. What is written while we read shows in its size or its times."""
    before, found, size = _facts(source), hashlib.sha256(), 0
    mode = 0o600 | os.fstat(source).st_mode & stat.S_IXUSR
    copied = copies.take(os.open(target, _NEW, mode, dir_fd=into))
    while chunk := os.read(source, beneath.CHUNK_BYTES):
        found.update(chunk)
        size += len(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(copied, rest) :]
        copies.grown(copied)
    if _facts(source) != before or size != before[0]:
        raise _refused(path, "it changed while it was copied")
    return {"size": size, "sha256": found.hexdigest()}


def _facts(descriptor: int) -> tuple[int, int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _text(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace").rstrip("/")


def _refused(path: bytes, why: str, hint: str | None = None) -> RepoError:
    return RepoError(UNFIT, f"the input {_text(path)} cannot be taken: {why}", hint)
