"""Reading from a client and hanging up, also on one that means harm.

A client may send descriptors along with its bytes, and some take long to close: a TCP socket as
long as its SO_LINGER says, which its owner chose. Nothing tells beforehand. So whatever came from
such a client is closed by threads, and while many are at it nothing more is taken from its socket.
"""

import os
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import trio

# All that the kernel lets a message have: what there is no room for is closed where it is read.
MOST_OF_KERNEL = 253
MOST_CLOSING = 8
_INT_BYTES = struct.calcsize("i")


class Closing:
    """Closes descriptors in threads of their own, on the loop that it was made on."""

    def __init__(self) -> None:
        self._busy = 0
        self._lot = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Closing, {self._busy} at it>"

    def close(self, descriptors: Iterable[int]) -> None:
        """Close them all, and wait for nothing."""
        numbers = tuple(descriptors)
        if not numbers:
            return
        self._busy += 1
        token = trio.lowlevel.current_trio_token()
        trio.lowlevel.start_thread_soon(partial(_close, numbers), partial(self._closed, token))

    async def room(self) -> None:
        """Wait until few are at it."""
        while self._busy >= MOST_CLOSING:
            await self._lot.park()

    def _closed(self, token: trio.lowlevel.TrioToken, _outcome: Any) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(self._over)

    def _over(self) -> None:
        self._busy -= 1
        self._lot.unpark_all()


class Channel:
    """A connected, non-blocking socket; ``closing`` closes what came from it, if that may stall."""

    def __init__(self, sock: socket.socket, closing: Closing | None) -> None:
        self._sock = sock
        self._closing = closing
        self._threads = trio.CapacityLimiter(1)

    def __repr__(self) -> str:
        return f"<Channel {self._sock.fileno()}>"

    async def receive(self, size: int) -> tuple[bytes, list[int]]:
        """Up to ``size`` bytes once there are any, none at the end, and what came with the last.

        Descriptors are the caller's to `drop`; where no harm is feared, they are not taken.
        Raises ConnectionError.
        """
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            with suppress(BlockingIOError):
                if self._closing is None:
                    return self._sock.recv(size), []
                await self._closing.room()
                # Out of descriptors the kernel closes here what it cannot hand over.
                return await trio.to_thread.run_sync(
                    _receive, self._sock, size, limiter=self._threads
                )

    def drop(self, descriptors: Iterable[int]) -> None:
        """Close what came along, and wait for nothing."""
        if self._closing is not None:
            self._closing.close(descriptors)

    def close(self) -> None:
        """Hang up, and wait for nothing."""
        hang_up(self._sock, self._closing)


def hang_up(sock: socket.socket, closing: Closing | None) -> None:
    """Close a socket, and with it what was sent along and never read."""
    if closing is None:
        sock.close()
    else:
        closing.close([sock.detach()])


def _close(descriptors: tuple[int, ...]) -> None:
    for each in descriptors:
        with suppress(OSError):
            os.close(each)


def _receive(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    space = socket.CMSG_SPACE(MOST_OF_KERNEL * _INT_BYTES)
    data, ancillary, _flags, _address = sock.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
    found: list[int] = []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found += struct.unpack(f"{len(content) // _INT_BYTES}i", content)
    return data, found
