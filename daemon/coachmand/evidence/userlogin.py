"""The user's own file of a login: one writer at a time, and only over what was read before."""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio

from .. import durable
from .seeds import read_file

POLL_S = 0.05


def digest(token: str) -> str:
    """What stands for a refresh token where it may be read."""
    return hashlib.sha256(token.encode()).hexdigest()


@asynccontextmanager
async def alone(path: str) -> AsyncIterator[None]:
    """Be the only daemon that renews the login at ``path``, whatever their state directories.

    The lock is on the directory that it lies in: nothing is left in the user's home. Raises
    OSError.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = await trio.to_thread.run_sync(os.open, os.path.dirname(path), flags)
    try:
        while not _locked(folder):  # noqa: ASYNC110 - a lock tells nobody that it is free
            await trio.sleep(POLL_S)
        yield
    finally:
        os.close(folder)


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def replace(path: str, make: Callable[[bytes], bytes]) -> None:
    """Put what ``make`` makes of the file there, with its mode and owner. Durable. Blocks.

    ``make`` may raise, and then nothing changes. Raises OSError.
    """
    own = read_file(path)
    if own is None:
        raise OSError(errno.ENOENT, "there is no such file any more", path)
    content, found = make(own), os.stat(path)
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, 0o600)
    try:
        try:
            durable.write_all(fd, content)
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(fd, found.st_uid, found.st_gid)
            os.fchmod(fd, stat.S_IMODE(found.st_mode))
            os.fsync(fd)
        finally:
            os.close(fd)
        # The last look before what is there is gone.
        if read_file(path) != own:
            make(read_file(path) or b"")
            raise OSError(errno.EAGAIN, "it was written meanwhile", path)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
