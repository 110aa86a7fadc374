"""Digest the regular files below a directory that an agent wrote, and take them from it."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from itertools import islice
from typing import Any

from attrs import asdict

from coachmand.repos import beneath, deletion
from coachmand.repos.errors import TOO_LARGE, RepoError
from coachmand.repos.records import Artifact

MAX_FILES = 100_000
MAX_LEFT_OUT = 1000
# Sparse files cost an agent nothing: beyond this, a file is listed but not read.
MAX_HASHED_BYTES = 4 * 1024**3
_OWN_FILE = stat.S_IRUSR | stat.S_IWUSR
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
# Where a file is while it is copied.
_PARTIAL = b".coachman-partial-%s"


def hash_tree(directory: str) -> list[dict[str, Any]]:
    """An `Artifact` for each regular file, sorted by path; links and pipes are passed over.

    At most `MAX_HASHED_BYTES` are read in all; what lies beyond has no digest.
    """
    root = beneath.open_root(beneath.raw(directory))
    found: list[Artifact] = []
    left = MAX_HASHED_BYTES
    try:
        for path, descriptor in beneath.files(root, lambda _: None):
            if len(found) >= MAX_FILES:
                raise RepoError(
                    TOO_LARGE, f"cannot list {directory}: it holds over {MAX_FILES} files"
                )
            size = os.fstat(descriptor).st_size
            is_read = size <= left
            left -= size if is_read else 0
            known = digest(descriptor, size) if is_read else None
            found.append(Artifact(beneath.text(path), size, known))
    finally:
        os.close(root)
    return [asdict(each) for each in sorted(found, key=lambda each: each.path)]


def archive(source: str, target: str) -> dict[str, Any]:
    """Move each regular file below ``source``, which nobody writes any more, to ``target``.

    Links, pipes, sockets and what cannot be opened stay where they are: ``left_out`` are their
    paths, the first `MAX_LEFT_OUT`, each with what it is. ``artifacts`` are all that ``target``
    holds then. A second call goes on where the first was interrupted.
    """
    left_out: dict[str, str] = {}
    # None at all where it was taken away before.
    with contextlib.suppress(FileNotFoundError):
        _move_all(source, target, left_out)
    return {
        "artifacts": hash_tree(target),
        "left_out": dict(islice(left_out.items(), MAX_LEFT_OUT)),
    }


def _move_all(source: str, target: str, left_out: dict[str, str]) -> None:
    root = beneath.open_root(beneath.raw(source))
    try:
        into = beneath.open_root(beneath.raw(target))
        try:
            for folder, name, path in _entries(root, left_out):
                if why := _move(folder, name, into, path):
                    left_out[beneath.text(path)] = why
        finally:
            os.close(into)
    finally:
        os.close(root)


def _entries(root: int, left_out: dict[str, str]) -> Iterator[tuple[int, bytes, bytes]]:
    """What is no directory: the directory that it lies in, its name there, its path."""
    pending = [b""]
    while pending:
        path = pending.pop()
        try:
            folder = beneath.open_folder(root, path)
        except OSError as error:
            left_out[beneath.text(path)] = _unreadable(error)
            continue
        try:
            for name in beneath.names_in(folder):
                below = path + b"/" + name if path else name
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    deletion.make_accessible(name, folder)
                    pending.append(below)
                else:
                    yield folder, name, below
        finally:
            os.close(folder)


def _move(folder: int, name: bytes, into: int, path: bytes) -> str:
    """Put a regular file in its new place, readable by its owner alone; why not, "" where it is."""
    try:
        kind = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        if kind != stat.S_IFREG:
            return _KINDS.get(kind, "a special file")
        deletion.make_accessible(name, folder, os.O_PATH | os.O_NOFOLLOW, _OWN_FILE)
        descriptor = beneath.open_file(folder, name)
    except OSError as error:
        return _unreadable(error)
    if descriptor is None:
        return "not what it was"
    try:
        mode = os.fstat(descriptor).st_mode
        os.fchmod(descriptor, _OWN_FILE | mode & stat.S_IXUSR)
        _make_parents(into, path)
        try:
            os.rename(name, path, src_dir_fd=folder, dst_dir_fd=into)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(descriptor, into, path)
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(descriptor)
    return ""


def _unreadable(error: OSError) -> str:
    return f"not to be opened: {error.strerror}"


def _make_parents(into: int, path: bytes) -> None:
    steps = path.split(b"/")[:-1]
    for count in range(1, len(steps) + 1):
        with contextlib.suppress(FileExistsError):
            os.mkdir(b"/".join(steps[:count]), 0o700, dir_fd=into)


def _copy(descriptor: int, into: int, path: bytes) -> None:
    """Whole or not at all: an interrupted copy is made anew."""
    partial = _PARTIAL % hashlib.sha256(path).hexdigest()[:16].encode()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    copied = os.open(partial, flags, _OWN_FILE, dir_fd=into)
    try:
        os.ftruncate(copied, os.fstat(descriptor).st_size)
        for start, end in _written(descriptor):
            _copy_bytes(descriptor, copied, start, end)
        os.fchmod(copied, stat.S_IMODE(os.fstat(descriptor).st_mode))
    finally:
        os.close(copied)
    os.rename(partial, path, src_dir_fd=into, dst_dir_fd=into)


def _written(descriptor: int) -> Iterator[tuple[int, int]]:
    """Where a file has bytes of its own: a hole costs an agent nothing, and must not cost us."""
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def _copy_bytes(source: int, target: int, start: int, end: int) -> None:
    while start < end:
        chunk = os.pread(source, min(end - start, beneath.CHUNK_BYTES), start)
        if not chunk:
            return
        start += os.pwrite(target, chunk, start)


def digest(descriptor: int, size: int) -> str:
    """The SHA-256 of the next ``size`` bytes at most, in hex."""
    found = hashlib.sha256()
    while size > 0 and (chunk := os.read(descriptor, min(size, beneath.CHUNK_BYTES))):
        found.update(chunk)
        size -= len(chunk)
    return found.hexdigest()
