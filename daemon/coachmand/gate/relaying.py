"""Bytes between a client and whom it was connected to, with a filter on the client's way out."""

from __future__ import annotations

import contextlib
import select
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Filter(Protocol):
        """What passes of a client's bytes."""

        one_answer: bool

        def feed(self, data: bytes) -> bytes: ...


CHUNK_BYTES = 64 * 1024


class Way:
    """One direction: what was read and is still to be written, and whether its end was read."""

    def __init__(self, source: socket.socket, sink: socket.socket, filter: Filter | None) -> None:
        self.source = source
        self.sink = sink
        self.filter = filter
        self.waiting = b""
        self.ended = False
        self.closed = False

    def read(self) -> None:
        data = self.source.recv(CHUNK_BYTES)
        self.ended = not data
        if data:
            self.waiting = self.filter.feed(data) if self.filter is not None else data

    def write(self) -> None:
        if self.waiting:
            self.waiting = self.waiting[self.sink.send(self.waiting) :]
        if self.ended and not self.waiting and not self.closed:
            self.closed = True
            self.sink.shutdown(socket.SHUT_WR)


def relay(client: socket.socket, server: socket.socket, filter: Filter, first: bytes) -> None:
    """Carry both ways until both ended, one broke, or the one answer was given.

    ``first`` is what the client sent already. Raises what the filter raises, and OSError.
    """
    for each in (client, server):
        each.setblocking(False)
    there, back = Way(client, server, filter), Way(server, client, None)
    if first:
        there.waiting = filter.feed(first)
    while not (back.closed and (there.closed or filter.one_answer)):
        _step(there, back)


def _step(there: Way, back: Way) -> None:
    wanted: dict[int, int] = {}
    for way in (there, back):
        if way.waiting:
            wanted[way.sink.fileno()] = wanted.get(way.sink.fileno(), 0) | select.POLLOUT
        elif not way.ended:
            wanted[way.source.fileno()] = wanted.get(way.source.fileno(), 0) | select.POLLIN
    poll = select.poll()
    for fd, mask in wanted.items():
        poll.register(fd, mask)
    ready = dict(poll.poll()) if wanted else {}
    for way in (there, back):
        if not way.waiting and not way.ended and ready.get(way.source.fileno()):
            _patiently(way.read)
        _patiently(way.write)


def _patiently(step: Callable[[], None]) -> None:
    with contextlib.suppress(BlockingIOError, InterruptedError):
        step()
