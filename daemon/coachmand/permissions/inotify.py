"""Waits for files to appear in a directory, by the kernel's own word: nothing is polled."""

import ctypes
import os
import struct

import trio

MOVED_TO = 0x80
CLOSE_WRITE = 0x08
GONE = 0x400 | 0x800 | 0x2000 | 0x8000  # deleted, moved, unmounted, and no longer watched
OVERFLOW = 0x4000
READ_BYTES = 64 * 1024
_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class GoneError(Exception):
    """The directory is not there any more."""


class Watch:
    """Tells that files came into a directory, which is open as ``fd``: moved in, or written."""

    def __init__(self, fd: int) -> None:
        self._fd = _checked(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            path = f"/proc/self/fd/{fd}".encode()
            mask = MOVED_TO | CLOSE_WRITE | 0x400 | 0x800
            _checked(_LIBC.inotify_add_watch(self._fd, path, mask))
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._fd)

    async def wait_for(self, name: str) -> None:
        """Return once something was put there under ``name``, or may have been."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                continue
            if name in _names(data, name):
                return


def _names(data: bytes, wanted: str) -> set[str]:
    """The names in the kernel's records; ``wanted`` is one of them where some were dropped."""
    names, at = set(), 0
    while at < len(data):
        _, mask, _, size = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        if mask & GONE:
            raise GoneError
        names.add(wanted if mask & OVERFLOW else os.fsdecode(data[at : at + size].rstrip(b"\0")))
        at += size
    return names


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
