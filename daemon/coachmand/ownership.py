"""Who may write in a state directory: one daemon at a time, and only the newest."""

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path

from attrs import define

LEFT_LIMIT_S = 5.0
LOOK_AGAIN_S = 0.02


class FencedError(Exception):
    """Another daemon took the state directory over: this one has nothing to write any more."""


@define
class Fence:
    """The file that every starting daemon replaces: while it is ours, no other one started."""

    path: Path
    identity: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> "Fence":
        """The fence as it is now; whoever replaces it later locks us out."""
        return cls(path, _identity(path))

    def check(self) -> None:
        """Raise FencedError where another daemon has started since. Takes microseconds."""
        if _identity(self.path) != self.identity:
            raise FencedError("another daemon was started on this state directory")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


_FENCES: list[Fence] = []


def stand_behind(fence: Fence | None) -> None:
    """Let this process write only while ``fence`` holds; None lets it write as it likes."""
    _FENCES[:] = [fence] if fence is not None else []


def check() -> None:
    """Raise FencedError where this process may not write any more."""
    for fence in _FENCES:
        fence.check()


class Lock:
    """An exclusive lock that names its holder and ends with its process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, path: Path, holder: str) -> "Lock":
        """Lock ``path`` for ``holder``.

        Raises `LockHeldError` with the text of whoever holds it. One that was killed may leave a
        child that is just about to execute its program: that one is waited for. Blocks.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        ends = time.monotonic() + LEFT_LIMIT_S
        while not _locked(fd):
            text = os.pread(fd, 4096, 0).decode("utf-8", "replace").strip()
            if not _is_gone(text) or time.monotonic() > ends:
                os.close(fd)
                raise LockHeldError(text or "an unknown process")
            time.sleep(LOOK_AGAIN_S)
        # Who it is, is said for people only: a full disk does not keep a daemon from starting.
        with contextlib.suppress(OSError):
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


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_gone(holder: str) -> bool:
    """Whether a holder is a process of this machine that has ended."""
    match holder.split():
        case ["pid", pid, "on", host] if pid.isdecimal() and host == socket.gethostname():
            try:
                stat = Path("/proc", pid, "stat").read_bytes()
            except OSError:
                return True
            return stat.rpartition(b")")[2].split()[:1] == [b"Z"]
    return False


class LockHeldError(Exception):
    """Somebody else holds the lock; the text says who."""
