"""Cursors: positions in a journal that somebody reads from, live or long ended."""

from pathlib import Path

import trio

from .lines import Line
from .log import Journal, last_seq_of, read_file

BATCH_LINES = 512


class Cursor:
    """Reads one live journal, in order, each line once, from after ``seq``."""

    def __init__(self, journal: Journal, seq: int) -> None:
        self._journal = journal
        self.path = journal.path
        self.seq = seq
        self._offset = 0

    def __repr__(self) -> str:
        return f"<Cursor {self._journal.run} after={self.seq}>"

    async def next(self) -> list[Line]:
        """The next lines, waiting for them; empty once the journal is closed and read."""
        await self._journal.wait_beyond(self.seq)
        return await self.take()

    async def take(self) -> list[Line]:
        """The next lines that exist already, perhaps none."""
        recent = self._journal.recent(self.seq, BATCH_LINES)
        if recent is not None:
            lines = recent
        else:
            lines, self._offset = await trio.to_thread.run_sync(
                self._journal.read, self.seq, self._offset
            )
        if lines:
            self.seq = lines[-1].seq
        return lines


class FileCursor:
    """Reads the journal file of a run that has ended."""

    def __init__(self, path: Path, seq: int) -> None:
        self.path = path
        self.seq = seq
        self.head = seq
        self._offset = 0

    async def next(self) -> list[Line]:
        """The next lines, empty at the end."""
        lines, self._offset = await trio.to_thread.run_sync(
            read_file, self.path, self.seq, self._offset
        )
        if lines:
            self.seq = lines[-1].seq
        return lines

    take = next

    def last_seq(self) -> int:
        """The seq of the journal's last line. Blocks."""
        self.head = last_seq_of(self.path)
        return self.head
