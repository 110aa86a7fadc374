"""Reach files below a held directory without ever following a symbolic link.

The trees are written by agents: any directory may become a link to elsewhere
between two system calls, any file may be a pipe nobody writes to.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Callable, Iterator

# Same number on every architecture.
_SYS_OPENAT2 = 437
_RESOLVE_BENEATH, _RESOLVE_NO_SYMLINKS, _RESOLVE_NO_MAGICLINKS = 0x08, 0x04, 0x02
_RESOLVE = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS

PATH_MAX_BYTES = 4096
CHUNK_BYTES = 1 << 20

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
# A pipe opened so returns at once; a regular file does not mind.
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_libc = ctypes.CDLL(None, use_errno=True)


def text(path: bytes) -> str:
    """A path as text that JSON carries and `raw` takes back."""
    return path.decode("utf-8", "surrogateescape")


def raw(path: str) -> bytes:
    """The bytes of a path that `text` or the daemon wrote."""
    return path.encode("utf-8", "surrogateescape")


def open_root(path: bytes) -> int:
    """A descriptor of the directory itself, which is not a link."""
    return os.open(path, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)


def open_folder(root: int, path: bytes) -> int:
    """A descriptor of the directory ``path`` below ``root``. Raises OSError."""
    return _open_beneath(root, path or b".", _FOLDER)


def open_file(folder: int, name: bytes) -> int | None:
    """A descriptor of a regular file, None when it is anything else. Raises OSError."""
    descriptor = _open_beneath(folder, name, _FILE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def names_in(folder: int) -> list[bytes]:
    """The names in an open directory, sorted."""
    return sorted(os.fsencode(name) for name in os.listdir(folder))


def read_small(folder: int, name: bytes, limit: int) -> bytes | None:
    """The content of a regular file of at most ``limit`` bytes, else None."""
    try:
        descriptor = open_file(folder, name)
    except OSError:
        return None
    if descriptor is None:
        return None
    with open(descriptor, "rb") as file:
        content = file.read(limit + 1)
    return content if len(content) <= limit else None


def files(root: int, unreadable: Callable[[bytes], None]) -> Iterator[tuple[bytes, int]]:
    """Each regular file below ``root`` with a descriptor that is closed on the next step.

    Links, pipes and sockets are passed over; what cannot be opened is handed
    to ``unreadable``. However deep the tree is, few descriptors are held.
    """
    pending = [b""]
    while pending:
        path = pending.pop()
        try:
            folder = open_folder(root, path)
        except OSError:
            unreadable(path)
            continue
        try:
            yield from _files_in(folder, path, pending, unreadable)
        finally:
            os.close(folder)


def _files_in(
    folder: int, path: bytes, pending: list[bytes], unreadable: Callable[[bytes], None]
) -> Iterator[tuple[bytes, int]]:
    for name in names_in(folder):
        below = path + b"/" + name if path else name
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                pending.append(below)
            descriptor = open_file(folder, name) if stat.S_ISREG(mode) else None
        except OSError:
            unreadable(below)
            continue
        if descriptor is not None:
            try:
                yield below, descriptor
            finally:
                os.close(descriptor)


def _open_beneath(folder: int, path: bytes, flags: int) -> int:
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _RESOLVE)
    descriptor: int = _libc.syscall(_SYS_OPENAT2, folder, path, how, ctypes.c_size_t(len(how)))
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), path)
    return descriptor
