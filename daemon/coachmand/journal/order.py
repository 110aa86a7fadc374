"""The one order of the events of all runs, and the newest of them in memory.

Every line carries ``g``, greater than that of any line before it, of whichever run. So a place
in what many runs said is one number, which no restart changes. Numbers are handed out before a
line is written and lines are shown in their order: one that is still being written holds back
those behind it, for who follows many runs only.
"""

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence

import trio
from attrs import define, field, frozen

from .lines import Line

# Readers who are further behind than this read from the files.
RECENT_BYTES = 2 * 1024 * 1024
# What a line takes beside its data: the objects around it, of which small lines have as many.
LINE_BYTES = 256


@frozen
class Source:
    """A run as those who follow many choose it: by facts that are fixed at its start."""

    run: str
    task: str = ""
    agent: str = ""
    repo: str = ""
    labels: Mapping[str, str] = field(factory=dict)
    parent: str | None = None
    ancestors: tuple[str, ...] = ()


@frozen
class Place:
    """A place among the events of all runs: behind ``g``.

    Lines that were written before lines had a ``g`` come first, run by run: among these it is
    behind ``seq`` of ``run``.
    """

    g: int = 0
    run: str = ""
    seq: int = 0

    def encode(self) -> str:
        """The place as an opaque cursor."""
        return f"2.0.{self.run}.{self.seq}" if self.run else f"2.{self.g}"

    @classmethod
    def decode(cls, cursor: str) -> "Place":
        """The place of a cursor; ValueError for anything that is not one."""
        match cursor.split("."):
            case ["2", g]:
                return cls(_number(g))
            case ["2", "0", run, seq] if run:
                return cls(0, run, _number(seq))
        raise ValueError(cursor)


@define
class Placed:
    """One line with its run and its place."""

    source: Source
    line: Line
    g: int
    _wire: bytes | None = field(default=None, repr=False)

    @property
    def place(self) -> Place:
        """Where a reader stands behind it."""
        return Place(self.g) if self.g else Place(0, self.source.run, self.line.seq)

    def wire(self) -> bytes:
        """The end of its notification, the same for all who follow many runs."""
        if self._wire is None:
            cursor = self.place.encode().encode()
            self._wire = b'"cursor":"' + cursor + b'","event":' + self.line.data + b"}}\n"
        return self._wire


@define
class Batch:
    """Lines that took the places up to ``last``: unwritten, or not to be shown yet."""

    last: int
    lines: list[Placed] = field(factory=list)
    is_unknown: bool = False


class Order:
    """Hands out places and shows what took them. ``head`` is the last that is shown.

    ``after`` is at least the greatest that was ever handed out before: clocks are set back.
    """

    def __init__(self, after: int = 0) -> None:
        self.head = self._last = self._floor = after
        # By their first place, what is being written, or waits for what is before it.
        self._batches: dict[int, Batch] = {}
        self._recent: list[Placed] = []
        self._recent_bytes = self._held_bytes = 0
        self._lot = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Order head={self.head} {len(self._recent)} recent>"

    @property
    def last(self) -> int:
        """The last place that was handed out."""
        return self._last

    def reserve(self, count: int) -> int:
        """The first of ``count`` places for lines that are about to be written."""
        first = max(self._last + 1, time.time_ns() // 1000)
        self._last = first + count - 1
        self._batches[first] = Batch(self._last)
        return first

    def publish(self, source: Source, first: int, lines: Sequence[Line]) -> None:
        """Show ``lines``, which are written and took the places from ``first`` on."""
        placed = [Placed(source, line, g) for g, line in enumerate(lines, first)]
        self._batches[first].lines = placed
        self._held_bytes += sum(map(_bytes, placed))
        self._show()
        if self._held_bytes > RECENT_BYTES:
            self._let_go()

    def give_up(self, first: int) -> None:
        """Nobody knows whether the lines that begin there were written: the files tell."""
        self._batches[first].is_unknown = True
        self._show()

    def recent(self, after: int, limit: int) -> list[Placed] | None:
        """At most ``limit`` lines behind ``after``, None where memory holds them no more."""
        if after < self._floor:
            return None
        start = bisect_right(self._recent, after, key=lambda placed: placed.g)
        return self._recent[start : start + limit]

    async def changed(self, seen: int) -> None:
        """Sleep while nothing is behind ``seen``, until `wake` at the latest.

        A reader may stand behind the head of an order that is still empty.
        """
        if self.head <= seen:
            await self._lot.park()

    def wake(self) -> None:
        """Let all who wait look around."""
        self._lot.unpark_all()

    def _show(self) -> None:
        while self._batches:
            first, batch = next(iter(self._batches.items()))
            if batch.is_unknown:
                self._forget(batch.last)
            elif batch.lines:
                size = sum(map(_bytes, batch.lines))
                self._recent += batch.lines
                self._recent_bytes += size
                self._held_bytes -= size
            else:
                break
            del self._batches[first]
            self.head = batch.last
        if self._recent_bytes > 2 * RECENT_BYTES:
            self._shorten()
        self.wake()

    def _let_go(self) -> None:
        """One line waits for the disk, maybe for long: what waits behind it is in the files."""
        kept: dict[int, Batch] = {}
        before: Batch | None = None
        for first, batch in self._batches.items():
            if batch.lines:
                batch.lines, batch.is_unknown = [], True
            if before is not None and before.is_unknown and batch.is_unknown:
                before.last = batch.last
                continue
            kept[first] = before = batch
        self._batches, self._held_bytes = kept, 0

    def _forget(self, until: int) -> None:
        self._recent, self._recent_bytes, self._floor = [], 0, until

    def _shorten(self) -> None:
        drop = 0
        while self._recent_bytes > RECENT_BYTES:
            self._recent_bytes -= _bytes(self._recent[drop])
            drop += 1
        self._floor = self._recent[drop - 1].g
        del self._recent[:drop]


def _bytes(placed: Placed) -> int:
    return LINE_BYTES + len(placed.line.data)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
