"""Reading from a client and hanging up, also on one that means harm.

A client may send descriptors along with its bytes. The kernel closes those that nobody takes, in
the thread that reads or that closes the connection, and some take long to close: a TCP socket as
long as its SO_LINGER says, which its owner chose. Nothing tells beforehand, and only Linux 6.16
and later can refuse them (SO_PASSRIGHTS).
"""

import os
import socket
from contextlib import suppress
from functools import partial
from typing import Any

import trio


class Channel:
    """A connected, non-blocking socket; ``hostile`` as in `Bounds`."""

    def __init__(self, sock: socket.socket, *, hostile: bool) -> None:
        self._sock = sock
        self._hostile = hostile
        # Its own: were all of them to share one, few could stall everybody.
        self._threads = trio.CapacityLimiter(1)

    def __repr__(self) -> str:
        return f"<Channel {self._sock.fileno()}{' hostile' * self._hostile}>"

    async def receive(self, size: int) -> bytes:
        """Up to ``size`` bytes once there are any, none at the end. Raises ConnectionError."""
        while True:
            await trio.lowlevel.wait_readable(self._sock)
            with suppress(BlockingIOError):
                if not self._hostile:
                    return self._sock.recv(size)
                return await trio.to_thread.run_sync(
                    self._sock.recv, size, abandon_on_cancel=True, limiter=self._threads
                )

    def close(self) -> None:
        """Hang up, and wait for nothing."""
        hang_up(self._sock, hostile=self._hostile)


def hang_up(sock: socket.socket, *, hostile: bool) -> None:
    """Close a socket, and with it what was sent along and never read."""
    if hostile:
        trio.lowlevel.start_thread_soon(partial(os.close, sock.detach()), _forget)
    else:
        sock.close()


def _forget(_outcome: Any) -> None:
    """Nobody waits for it."""
