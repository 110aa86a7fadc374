"""The only way to disk for what must survive a crash.

Everything here blocks and belongs in a worker thread. Where the disk refuses, a
`DiskError` says so and the old content is in place. One that is full may be asked again
once there is room; a failed sync is never retried in hope, since the kernel may have
dropped the pages that it could not write.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from . import ownership
from .failpoints import guard, reach

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

_open = guard("disk.open", os.open)
_write = guard("disk.write", os.write)
_pwrite = guard("disk.write", os.pwrite)
_fsync = guard("disk.sync", os.fsync)
_fdatasync = guard("disk.sync", os.fdatasync)
_fallocate = guard("disk.write", os.posix_fallocate)
_rename = guard("disk.rename", os.rename)
_link = guard("disk.link", os.link)
_unlink = guard("disk.unlink", os.unlink)
_mkdir = guard("disk.mkdir", os.mkdir)
_truncate = guard("disk.truncate", os.ftruncate)


class DiskError(OSError):
    """The disk took something not, or not for sure: storage cannot be trusted any more."""


class FullError(DiskError):
    """There is no room: nothing was written, and it may be tried again once there is."""


@contextlib.contextmanager
def _disk() -> Iterator[None]:
    ownership.check()
    try:
        yield
    except DiskError:
        raise
    except OSError as error:
        kind = FullError if error.errno in NO_ROOM else DiskError
        raise kind(error.errno, error.strerror, error.filename) from error


@contextlib.contextmanager
def _syncing() -> Iterator[None]:
    """Whatever a sync complains of, it is not known what reached the disk."""
    try:
        yield
    except OSError as error:
        raise DiskError(error.errno, error.strerror, error.filename) from error


@_disk()
def sync_directory(path: Path) -> None:
    """Make names created, renamed or removed in ``path`` survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with _syncing():
            _fsync(fd)
    finally:
        os.close(fd)


@_disk()
def make_directory(path: Path) -> None:
    """Create ``path`` and its parents, private to the user. Synced only with what goes in it."""
    if path.is_dir():
        return
    make_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        _mkdir(path, DIRECTORY_MODE)


@_disk()
def write_all(fd: int, data: bytes) -> None:
    """Write the whole of ``data``; a regular file may take less at once."""
    view = memoryview(data)
    while view:
        view = view[_write(fd, view) :]


@_disk()
def create(path: Path, data: bytes) -> None:
    """Write ``data`` to a new file and sync it, but not yet its name."""
    create_all(path, [data])


@_disk()
def create_all(path: Path, pieces: Iterable[bytes]) -> None:
    """`create` for what is too long to be held at once."""
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        for piece in pieces:
            write_all(fd, piece)
        with _syncing():
            _fsync(fd)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(fd)


@_disk()
def mark(path: Path) -> None:
    """Create an empty file, for its name alone. Durable on return."""
    os.close(_open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    sync_directory(path.parent)


def _write_beside(path: Path, pieces: Iterable[bytes]) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    create_all(temporary, pieces)
    return temporary


@_disk()
def replace(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``: a reader finds all of the old or all of the new. Durable."""
    put(path, data)
    sync_directory(path.parent)


@_disk()
def put(path: Path, data: bytes) -> None:
    """The same for what could be derived again: after a power cut it may be the old one."""
    put_all(path, [data])


@_disk()
def put_all(path: Path, pieces: Iterable[bytes]) -> None:
    """`put` for what is too long to be held at once."""
    temporary = _write_beside(path, pieces)
    try:
        _rename(temporary, path)
    except OSError:
        temporary.unlink()
        raise
    reach("disk.renamed")


@_disk()
def copy(path: Path) -> None:
    """Write a file anew, in its place: whatever befell the old one's pages is left behind."""
    if not path.is_file():
        raise DiskError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as old:
        put_all(path, iter(lambda: old.read(1 << 20), b""))
    sync_directory(path.parent)


@_disk()
def move(source: Path, target: Path) -> None:
    """Rename, durably: ``target`` appears whole."""
    _rename(source, target)
    reach("disk.renamed")
    sync_directory(target.parent)


def claim(path: Path, data: bytes) -> bool:
    """Create ``path`` with ``data`` unless it exists; False where somebody was first."""
    temporary = _write_beside(path, [data])
    try:
        with _disk():
            _link(temporary, path)
    except DiskError as error:
        if error.errno == errno.EEXIST:
            return False
        raise
    finally:
        temporary.unlink()
    sync_directory(path.parent)
    return True


@_disk()
def remove(path: Path) -> None:
    """Remove a file; no error where it is gone already. After a power cut it may be back."""
    with contextlib.suppress(FileNotFoundError):
        _unlink(path)


@_disk()
def overwrite(fd: int, data: bytes, offset: int) -> None:
    """Change bytes in the middle of a file. Not synced."""
    while data:
        written = _pwrite(fd, data, offset)
        data, offset = data[written:], offset + written


@_syncing()
def sync(fd: int) -> None:
    """Bring an open file to the disk."""
    _fsync(fd)


@_disk()
def reserve(path: Path, size: int) -> None:
    """Take ``size`` bytes of the disk, to be given back by `remove`; all of them or none."""
    fd = _open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        _truncate(fd, 0)
        _fallocate(fd, 0, size)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(fd)


class AppendFile:
    """An append-only file of lines whose torn tail is cut when it is opened."""

    def __init__(self, path: Path) -> None:
        created = not path.exists()
        self.path = path
        with _disk():
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._fd = (_open if created else os.open)(path, flags, FILE_MODE)
            if created:
                sync_directory(path.parent)
            self.cut_bytes = self._cut_torn_tail()

    def __repr__(self) -> str:
        return f"<AppendFile {self.path.name} {self.size} bytes>"

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return os.fstat(self._fd).st_size

    @_disk()
    def append(self, data: bytes, *, sync: bool) -> None:
        """Add ``data`` at the end; with ``sync`` it has reached the disk on return.

        What is refused halfway is taken back: the file ends as it did before.
        """
        end = self.size
        try:
            write_all(self._fd, data)
        except OSError as error:
            self._take_back(end, error)
            raise
        if sync:
            self.sync()

    @_syncing()
    def sync(self) -> None:
        """Bring everything appended so far to the disk."""
        _fdatasync(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``."""
        return os.pread(self._fd, size, offset)

    def close(self) -> None:
        """Close the file; what was not synced is left to the kernel."""
        os.close(self._fd)

    def _take_back(self, end: int, refused: OSError) -> None:
        try:
            _truncate(self._fd, end)
        except OSError:
            # Half a line is left: this is more than a disk that is full.
            raise DiskError(refused.errno, refused.strerror, str(self.path)) from refused

    def _cut_torn_tail(self) -> int:
        end = size = self.size
        while end:
            start = max(0, end - 65536)
            newline = os.pread(self._fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end != size:
            _truncate(self._fd, end)
            self.sync()
        return size - end
