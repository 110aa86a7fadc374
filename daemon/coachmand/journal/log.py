"""One run's journal: appended by its run alone, read by any number of cursors.

Subscribers are cursors over the log, not queues: each reads from the tail that
is kept in memory or, when it is behind, from the file. A slow reader delays
only itself, and nobody loses an event.
"""

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from coachman.wire import MAX_EVENT_BYTES

from ..durable import AppendFile
from ..failpoints import reach
from ..redaction import Redactor
from . import vocabulary as v
from .damage import DamagedError
from .lines import Entry, Line, check, decode, encode, g_of, seq_of
from .masking import ChunkMask
from .order import Order, Source

# Readers who are further behind than this read from the file.
TAIL_BYTES = 512 * 1024
INDEX_ENTRIES = 8192
# Room for the longest line and its newline, so that one read always holds a whole line.
READ_BYTES = MAX_EVENT_BYTES + 64 * 1024
SYNC_WITHIN_S = 1.0
InThread = Callable[[Callable[[], None]], Awaitable[None]]


class Journal:
    """The append-only event log of one run. ``head`` is the seq of its last line."""

    def __init__(
        self,
        path: Path,
        run: str,
        redactor: Redactor | None = None,
        in_thread: InThread = trio.to_thread.run_sync,
        order: Order | None = None,
        source: Source | None = None,
    ) -> None:
        """Open ``path``, cutting a torn tail. Blocks: call it in a thread.

        ``in_thread`` calls what writes, and decides what a refusal means. Lines take their places
        in ``order`` as those of ``source``.
        """
        self.run = run
        self.source = source or Source(run)
        self._order = order or Order()
        self._in_thread = in_thread
        self.redactor = redactor or Redactor()
        self._mask = ChunkMask(self.redactor)
        self.closed = False
        self.path = path
        self._file = AppendFile(path)
        self.cut_bytes = self._file.cut_bytes
        self.size = self._file.size
        self.head = last_seq_of(path)
        self._tail: list[Line] = []
        self._tail_bytes = 0
        self._index: list[tuple[int, int]] = []
        self._lot = trio.lowlevel.ParkingLot()
        self._unsynced_since: float | None = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<Journal {self.run} head={self.head} {self.size} bytes {state}>"

    async def append(
        self, entries: Sequence[Entry], envelope: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Write ``entries`` and show them to the cursors; returns them as events.

        ``envelope`` holds the members every line of this moment shares (attempt, turn,
        session). What decides something has reached the disk on return. The caller is
        the run's only writer; of a chunk that may end in a secret's beginning nothing is told
        before more is known. Raises OSError where the disk refuses: nothing is shown then.
        """
        entries = self._mask.take(entries)
        if not entries:
            return []
        first = self._order.reserve(len(entries))
        try:
            events, lines = self._number(entries, envelope, first)
            await self._write(entries, b"".join(line.data + b"\n" for line in lines))
        except BaseException:
            self._order.give_up(first)
            raise
        self._publish(lines)
        self._order.publish(self.source, first, lines)
        return events

    async def _write(self, entries: Sequence[Entry], data: bytes) -> None:
        sync = any(v.decides(entry.type, entry.members) for entry in entries) or self._sync_is_due()
        await self._in_thread(lambda: self._file.append(data, sync=sync))
        self._unsynced_since = None if sync else self._unsynced_since or time.monotonic()
        reach("journal.synced" if sync else "journal.written")

    def redact(self, redactor: Redactor) -> None:
        """Mask what ``redactor`` knows in everything that is written from now on."""
        self.redactor = redactor
        self._mask.learn(redactor)

    @property
    def holding(self) -> bool:
        """Whether a chunk is held back because its end may begin a secret."""
        return self._mask.holding

    async def sync(self) -> None:
        """Bring what was appended to the disk."""
        if self._unsynced_since is not None:
            self._unsynced_since = None
            await self._in_thread(self._file.sync)

    @property
    def sync_due_s(self) -> float | None:
        """The monotonic second by which `sync` is owed, where lines wait for it."""
        since = self._unsynced_since
        return None if since is None else since + SYNC_WITHIN_S

    def close(self) -> None:
        """No more lines will come: cursors end once they have read them all."""
        if not self.closed:
            self.closed = True
            self._file.close()
            self._lot.unpark_all()

    async def wait_beyond(self, seq: int) -> None:
        """Sleep until a line after ``seq`` exists or the journal is closed."""
        while self.head <= seq and not self.closed:
            await self._lot.park()

    def recent(self, after: int, limit: int) -> list[Line] | None:
        """At most ``limit`` lines after ``after``, or None where memory holds them no more."""
        start = after + 1 - (self._tail[0].seq if self._tail else self.head + 1)
        return self._tail[start : start + limit] if start >= 0 else None

    def read(self, after: int, offset: int = 0) -> tuple[list[Line], int]:
        """Some lines after ``after`` from the file, and the offset behind them. Blocks.

        Lines that are written but have not reached the disk yet are left out.
        """
        return read_file(self.path, after, max(offset, self._offset_hint(after)), self.size)

    def _offset_hint(self, after: int) -> int:
        return next((at for seq, at in reversed(self._index) if seq <= after + 1), 0)

    def _number(
        self, entries: Sequence[Entry], envelope: dict[str, Any], first_g: int
    ) -> tuple[list[dict[str, Any]], list[Line]]:
        now_ms = time.time_ns() // 1_000_000
        events: list[dict[str, Any]] = []
        lines: list[Line] = []
        for seq, entry in enumerate(entries, self.head + 1):
            g = first_g + len(lines)
            place = {"seq": seq, "g": g, "ts": now_ms, "run": self.run}
            event = {"type": entry.type, **place, **envelope}
            if entry.n is not None:
                event["n"] = entry.n
            event.update(entry.members)
            if entry.cut:
                event["cut"] = dict(entry.reference or {})
            data = encode(event, entry.reference)
            masked = self.redactor.mask(data)
            # What is remembered of a run is told as well, so it is what was written.
            events.append(event if masked == data else decode(masked))
            lines.append(Line(seq, masked))
        return events, lines

    def _sync_is_due(self) -> bool:
        due = self.sync_due_s
        return due is not None and time.monotonic() >= due

    def _publish(self, lines: list[Line]) -> None:
        size = sum(len(line.data) + 1 for line in lines)
        self._index.append((lines[0].seq, self.size))
        self.size += size
        self.head = lines[-1].seq
        self._tail.extend(lines)
        self._tail_bytes += size
        if self._tail_bytes > 2 * TAIL_BYTES:
            self._shorten_tail()
        if len(self._index) > INDEX_ENTRIES:
            self._index = self._index[::2]
        self._lot.unpark_all()

    def _shorten_tail(self) -> None:
        drop = 0
        while self._tail_bytes > TAIL_BYTES and drop < len(self._tail) - 1:
            self._tail_bytes -= len(self._tail[drop].data) + 1
            drop += 1
        del self._tail[:drop]


def read_file(
    path: Path, after: int, offset: int, end: int | None = None, at_once: int = READ_BYTES
) -> tuple[list[Line], int]:
    """Some lines of a journal file after ``after``, and the offset behind them. Blocks.

    A last line that is still being written is left for the next time, as is all after ``end``.
    It reads ``at_once`` bytes, more only where a line is longer.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size if end is None else end
        return _read_lines(fd, after, offset, size, at_once)
    except ValueError as error:
        raise DamagedError(path, f"a line behind event {after}: {error}") from error
    finally:
        os.close(fd)


def _read_lines(fd: int, after: int, offset: int, end: int, at_once: int) -> tuple[list[Line], int]:
    lines: list[Line] = []
    while offset < end and not lines:
        data = os.pread(fd, min(at_once, end - offset), offset)
        cut = data.rfind(b"\n") + 1
        if not cut and at_once >= READ_BYTES:
            break
        if not cut:
            at_once = READ_BYTES
            continue
        offset += cut
        for raw in data[: cut - 1].split(b"\n"):
            seq = seq_of(check(raw))
            if seq > after:
                lines.append(Line(seq, raw))
    return lines, offset


def last_seq_of(path: Path) -> int:
    """The seq of a journal file's last whole line, 0 where it has none. Blocks."""
    line = _last_line(path)
    try:
        return seq_of(check(line)) if line else 0
    except ValueError as error:
        raise DamagedError(path, f"its last line: {error}") from error


def last_g_of(path: Path) -> int:
    """The place of a journal file's last whole line among those of all runs. Blocks."""
    line = _last_line(path)
    return g_of(line) if line else 0


def last_type_of(path: Path) -> str | None:
    """The type of a journal file's last whole line. Blocks."""
    line = _last_line(path)
    return str(decode(line)["type"]) if line else None


def _last_line(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size, want = os.fstat(fd).st_size, 4096
        while True:
            start = max(0, size - want)
            whole = os.pread(fd, size - start, start).rpartition(b"\n")[0]
            newline = whole.rfind(b"\n")
            if newline >= 0 or start == 0:
                return whole[newline + 1 :]
            want *= 4
    finally:
        os.close(fd)
