"""What waits to be sent on one connection: replies first, then events."""

import socket
from collections import deque
from collections.abc import Iterator

import trio

from coachman.wire import MAX_UNSENT_BYTES

# Bounds how long a reply waits behind events that were picked before it.
SEND_BYTES = 64 * 1024


class Outbox:
    """Lines for one non-blocking socket.

    A send never ends within a line that another kind follows. ``broken`` is set
    once the peer is gone; from then on everything is dropped.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._replies: deque[bytes] = deque()
        self._events: deque[bytes] = deque()
        self._sending = memoryview(b"")
        self._reply_bytes = 0
        self._event_bytes = 0
        self._pending = trio.Event()
        self._room = trio.lowlevel.ParkingLot()
        self.broken = False

    def __repr__(self) -> str:
        return f"<Outbox {self._reply_bytes} reply bytes, {self._event_bytes} event bytes>"

    @property
    def unsent_bytes(self) -> int:
        """Bytes accepted and not yet taken by the kernel."""
        return self._reply_bytes + self._event_bytes + len(self._sending)

    def put_reply(self, line: bytes) -> None:
        """Queue a reply; `flush` sends it."""
        self._replies.append(line)
        self._reply_bytes += len(line)

    async def put_events(self, lines: bytes) -> None:
        """Queue whole lines once they fit into the 1 MiB that may be unsent."""
        await trio.lowlevel.checkpoint()
        while self.unsent_bytes and self.unsent_bytes + len(lines) > MAX_UNSENT_BYTES:
            await self._room.park()
        if not self.broken and lines:
            self._events.extend(_pieces(lines))
            self._event_bytes += len(lines)
            self._pending.set()

    async def room_for_replies(self) -> None:
        """Wait until less than 1 MiB of replies is unsent."""
        if self._reply_bytes > MAX_UNSENT_BYTES:
            self.flush()
        while self._reply_bytes > MAX_UNSENT_BYTES and not self.broken:
            await self._room.park()

    async def drained(self) -> None:
        """Wait until everything was taken by the kernel or the peer is gone."""
        while self.unsent_bytes and not self.broken:
            await self._room.park()

    def flush(self) -> None:
        """Send what the kernel takes without waiting; `run` sends the rest."""
        while not self.broken and self._pick():
            try:
                sent = self._sock.send(self._sending)
            except BlockingIOError:
                self._pending.set()
                return
            except OSError:
                self._break()
                return
            self._sending = self._sending[sent:]
        self._room.unpark_all()

    async def run(self) -> None:
        """Send what `flush` could not, and events; returns when the peer is gone."""
        while not self.broken:
            await self._pending.wait()
            self._pending = trio.Event()
            self.flush()
            if self.unsent_bytes:
                await trio.lowlevel.wait_writable(self._sock)

    def _pick(self) -> bool:
        if not self._sending and self._replies:
            chunk = _take(self._replies)
            self._reply_bytes -= len(chunk)
            self._sending = memoryview(chunk)
        elif not self._sending and self._events:
            chunk = _take(self._events)
            self._event_bytes -= len(chunk)
            self._sending = memoryview(chunk)
        return bool(self._sending)

    def _break(self) -> None:
        self.broken = True
        self._replies.clear()
        self._events.clear()
        self._reply_bytes = self._event_bytes = 0
        self._sending = memoryview(b"")
        self._pending.set()
        self._room.unpark_all()


def _pieces(lines: bytes) -> Iterator[bytes]:
    """Cut a batch after the last newline within each SEND_BYTES, a long line after its own."""
    start = 0
    while len(lines) - start > SEND_BYTES:
        cut = lines.rfind(b"\n", start, start + SEND_BYTES) + 1
        if cut == 0:
            cut = lines.find(b"\n", start) + 1
        if cut in (0, len(lines)):
            break
        yield lines[start:cut]
        start = cut
    yield lines[start:] if start else lines


def _take(queue: deque[bytes]) -> bytes:
    """The next lines of a queue, joined while they fit into one send."""
    size = len(queue[0])
    parts = [queue.popleft()]
    while queue and size + len(queue[0]) <= SEND_BYTES:
        size += len(queue[0])
        parts.append(queue.popleft())
    return parts[0] if len(parts) == 1 else b"".join(parts)
