"""What many runs said, in the order of all events, read from their files. Everything blocks."""

import heapq
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import structlog
from attrs import define, field, frozen

from .damage import DamagedError
from .lines import Line, g_of
from .log import READ_BYTES, read_file
from .order import Place, Placed, Source

log = structlog.get_logger("journal")
# Of each of many files that are read side by side.
PIECE_BYTES = 64 * 1024
# What is handed on at once.
BATCH_BYTES = 128 * 1024


@frozen
class Past:
    """A run that may have said something: its journal, and the place of its first line.

    ``first_g`` 0 says that its first lines have no place.
    """

    source: Source
    path: Path
    first_g: int


@define
class Reader:
    """One journal, from behind the place ``after``, or of lines without one from ``seq`` on."""

    past: Past
    after: int = 0
    seq: int = 0
    _offset: int | None = None
    _lines: Iterator[Line] = field(factory=lambda: iter(()))

    def next(self) -> Placed | None:
        """The next line; None at the journal's end, which may be one that is damaged."""
        while True:
            for line in self._lines:
                g = g_of(line.data)
                if g > self.after and line.seq > self.seq:
                    return Placed(self.past.source, line, g)
            if not self._read_on():
                return None

    def _read_on(self) -> bool:
        path = self.past.path
        try:
            if self._offset is None:
                self._offset = offset_behind(path, self.after) if self.after > 0 else 0
            lines, self._offset = read_file(path, 0, self._offset, at_once=PIECE_BYTES)
        except (DamagedError, OSError, ValueError) as error:
            log.error("journal_damaged", run=self.past.source.run, error=str(error))
            return False
        self._lines = iter(lines)
        return bool(lines)


class History:
    """All lines of ``pasts`` behind the place ``after`` and up to ``until``, in order.

    ``pasts`` come in the order of their first lines, and only as many are open as spoke at the
    same time. None is asked for before the first `read`: to find one may take long.
    """

    def __init__(self, pasts: Iterable[Past], after: int, until: int) -> None:
        self._coming = iter(pasts)
        self._next: Past | None = None
        self._begun = False
        self._after, self._until = after, until
        self._open: list[tuple[int, str, Placed, Reader]] = []

    def read(self) -> list[Placed]:
        """The next lines; empty once all up to ``until`` were read."""
        if not self._begun:
            self._begun, self._next = True, next(self._coming, None)
        found: list[Placed] = []
        size = 0
        while size < BATCH_BYTES:
            self._open_due()
            if not self._open or self._open[0][0] > self._until:
                break
            _, _, placed, reader = heapq.heappop(self._open)
            found.append(placed)
            size += len(placed.line.data)
            self._push(reader)
        return found

    def _open_due(self) -> None:
        while self._next is not None and self._is_due(self._next.first_g):
            self._push(Reader(self._next, self._after))
            self._next = next(self._coming, None)

    def _is_due(self, first_g: int) -> bool:
        return first_g <= (self._open[0][0] if self._open else self._until)

    def _push(self, reader: Reader) -> None:
        placed = reader.next()
        if placed is not None:
            heapq.heappush(self._open, (placed.g, placed.source.run, placed, reader))


class Unplaced:
    """The lines without a place of ``pasts``, which come by name, behind ``after``."""

    def __init__(self, pasts: Iterable[Past], after: Place) -> None:
        self._pasts = iter(pasts)
        self._after = after
        self._reader: Reader | None = None

    def read(self) -> list[Placed]:
        """The next lines; empty once all were read."""
        found: list[Placed] = []
        size = 0
        while size < BATCH_BYTES:
            if self._reader is None and not self._open_next():
                break
            assert self._reader is not None
            placed = self._reader.next()
            if placed is None or placed.g:
                self._reader = None
                continue
            found.append(placed)
            size += len(placed.line.data)
        return found

    def _open_next(self) -> bool:
        past = next((p for p in self._pasts if p.source.run >= self._after.run), None)
        if past is None:
            return False
        is_same = past.source.run == self._after.run
        self._reader = Reader(past, -1, self._after.seq if is_same else 0)
        return True


def offset_behind(path: Path, after: int) -> int:
    """The offset of a line before which no line's place is behind ``after``."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        low, high = 0, os.fstat(fd).st_size
        while high - low > READ_BYTES:
            middle = (low + high) // 2
            start, g = _line_behind(fd, middle)
            if start is None or start >= high or g > after:
                high = middle
            else:
                low = start
        return low
    finally:
        os.close(fd)


def _line_behind(fd: int, offset: int) -> tuple[int | None, int]:
    """Where the first line begins that begins behind ``offset``, and its place."""
    data = os.pread(fd, READ_BYTES, offset)
    start = data.find(b"\n") + 1
    end = data.find(b"\n", start)
    if not start or end < 0:
        return None, 0
    return offset + start, g_of(data[start:end])
