"""The only way to disk for what must survive a crash.

Everything here blocks and belongs in a worker thread. Where the disk refuses, a
`DiskError` says so and the old content is in place; a failed sync is never retried
in hope, since the kernel may have dropped the pages that it could not write.
"""

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


class DiskError(OSError):
    """The disk took something not, or not for sure: storage cannot be trusted any more."""


@contextlib.contextmanager
def _disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiskError(error.errno, error.strerror, error.filename) from error


@_disk()
def sync_directory(path: Path) -> None:
    """Make names created, renamed or removed in ``path`` survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@_disk()
def make_directory(path: Path) -> None:
    """Create ``path`` and its parents, private to the user. Synced only with what goes in it."""
    if path.is_dir():
        return
    make_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=DIRECTORY_MODE)


def write_all(fd: int, data: bytes) -> None:
    """Write the whole of ``data``; a regular file may take less at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@_disk()
def create(path: Path, data: bytes) -> None:
    """Write ``data`` to a new file and sync it, but not yet its name."""
    _create(path, [data])


def _create(path: Path, pieces: Iterable[bytes]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        for piece in pieces:
            write_all(fd, piece)
        os.fsync(fd)
    except OSError:
        path.unlink()
        raise
    finally:
        os.close(fd)


@_disk()
def mark(path: Path) -> None:
    """Create an empty file, for its name alone. Durable on return."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    sync_directory(path.parent)


def _write_beside(path: Path, pieces: Iterable[bytes]) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    _create(temporary, pieces)
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
    _write_beside(path, pieces).rename(path)


def claim(path: Path, data: bytes) -> bool:
    """Create ``path`` with ``data`` unless it exists; False where somebody was first."""
    temporary = _write_beside(path, [data])
    try:
        with _disk():
            os.link(temporary, path)
    except DiskError as error:
        if error.errno == errno.EEXIST:
            return False
        raise
    finally:
        temporary.unlink()
    sync_directory(path.parent)
    return True


def remove(path: Path) -> None:
    """Remove a file; no error where it is gone already. After a power cut it may be back."""
    path.unlink(missing_ok=True)


class AppendFile:
    """An append-only file of lines whose torn tail is cut when it is opened."""

    def __init__(self, path: Path) -> None:
        created = not path.exists()
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
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
        """Add ``data`` at the end; with ``sync`` it has reached the disk on return."""
        write_all(self._fd, data)
        if sync:
            os.fdatasync(self._fd)

    @_disk()
    def sync(self) -> None:
        """Bring everything appended so far to the disk."""
        os.fdatasync(self._fd)

    def read(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``offset``."""
        return os.pread(self._fd, size, offset)

    def close(self) -> None:
        """Close the file; what was not synced is left to the kernel."""
        os.close(self._fd)

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
            os.ftruncate(self._fd, end)
            os.fdatasync(self._fd)
        return size - end


class Lock:
    """An exclusive lock that names its holder and ends with its process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, path: Path, holder: str) -> "Lock":
        """Lock ``path`` for ``holder``.

        Raises `LockHeldError` with the text of whoever holds it.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(fd, 4096, 0).decode("utf-8", "replace").strip()
            os.close(fd)
            raise LockHeldError(text or "an unknown process") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, holder.encode() + b"\n", 0)
        return cls(fd)

    @classmethod
    def inherit(cls, path: Path, fd: int) -> "Lock":
        """The lock that this process held before it re-executed itself.

        Raises `LockHeldError` where ``fd`` is not that lock.
        """
        try:
            same = os.path.samestat(os.fstat(fd), path.stat())
            os.set_inheritable(fd, False)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise LockHeldError("another process: the lock was lost on the way") from error
        if not same:
            raise LockHeldError("another process: the lock was replaced on the way")
        return cls(fd)

    @property
    def fd(self) -> int:
        """The descriptor that holds it; whoever inherits it holds the lock."""
        return self._fd

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._fd)


class LockHeldError(Exception):
    """Somebody else holds the lock; the text says who."""
