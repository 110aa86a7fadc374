"""The agent's two outputs: from their pipes to segments on disk, undecoded and complete."""

from __future__ import annotations

import os
import select
from functools import partial

from ..failpoints import reach
from .files import fdatasync, log, open_log, read_some, write_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop
    from .record import Launch

ERROR_TAIL_BYTES = 1024
STORAGE_RETRY_S = 2.0
DRAIN_LIMIT_S = 5.0


class Stream:
    """One output: a pipe (-1 once it ended), and the segments that its bytes go to.

    `size` counts the bytes that are in segments. At most one chunk is in memory, `_pending`,
    and it stays there while the disk refuses it.
    """

    def __init__(self, name: str, pipe: int, directory: int, segment_bytes: int) -> None:
        self.name = name
        self.pipe = pipe
        self.size = 0
        self._pending = b""
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segment = -1
        self._start = 0

    def pump(self) -> bool:
        """Move one chunk to the disk; False at the end of the pipe. Raises OSError (storage)."""
        if not self._pending:
            chunk = read_some(self.pipe)
            if not chunk:
                return chunk is None
            self._pending = chunk
        self.store()
        return True

    def store(self) -> None:
        """Write what is pending. Raises OSError."""
        while self._pending:
            if self._segment < 0 or self.size - self._start == self._segment_bytes:
                self._next_segment()
            at = self.size - self._start
            room = self._segment_bytes - at
            written = write_at(self._segment, self._pending[:room], at)
            self.size += written
            self._pending = self._pending[written:]
        reach("keeper.stored")

    def _next_segment(self) -> None:
        if self._segment >= 0:
            os.close(self._segment)
            self._segment = -1
        self._segment = open_log(self._directory, f"{self.name}.{self.size}")
        self._start = self.size

    def sync(self) -> None:
        """Make every segment durable; the kernel wrote most of the old ones back already."""
        for start in range(0, self.size, self._segment_bytes):
            try:
                fd = os.open(f"{self.name}.{start}", os.O_RDONLY, dir_fd=self._directory)
            except FileNotFoundError:
                # Somebody removed it: that is no reason to stay for ever.
                continue
            try:
                fdatasync(fd)
            finally:
                os.close(fd)

    def tail(self) -> bytes:
        if self._segment < 0:
            return b""
        length = self.size - self._start
        return os.pread(self._segment, ERROR_TAIL_BYTES, max(0, length - ERROR_TAIL_BYTES))


class Outputs:
    """Both streams, and when they are read: not on hold, nor while the disk refuses.

    `error` says what the disk refuses, None when it takes everything; `tell_error` is called
    with each change of it. `tell_flood` is called once as much is stored as may be: from then
    on nothing is read, so that what is stored has no hole.
    """

    def __init__(
        self,
        loop: Loop,
        pipes: tuple[int, int],
        directory: int,
        launch: Launch,
        tell_error: Callable[[], None],
        tell_flood: Callable[[], None],
    ) -> None:
        self.stdout, self.stderr = (
            Stream(name, pipe, directory, launch.segment_bytes)
            for name, pipe in zip(("stdout", "stderr"), pipes, strict=True)
        )
        self.held = False
        self.draining = False
        self.error: str | None = None
        self.error_number: int | None = None
        self._limit_bytes = launch.output_limit_bytes
        self._loop = loop
        self._streams = (self.stdout, self.stderr)
        self._tell_error = tell_error
        self._tell_flood = tell_flood
        self._watch()

    @property
    def sizes(self) -> tuple[int, int]:
        return self.stdout.size, self.stderr.size

    @property
    def drained(self) -> bool:
        """Whether everything is on disk that ever will be."""
        ended = self.flooded or all(stream.pipe < 0 for stream in self._streams)
        return self.error is None and ended

    @property
    def flooded(self) -> bool:
        """Whether as much is stored as may be."""
        return self.stdout.size + self.stderr.size >= self._limit_bytes

    def hold(self) -> None:
        """Let the agent wait in its own writes."""
        self.held = True
        if not self.draining:
            self._loop.cancel(self.retry)
        self._watch()

    def release(self) -> None:
        self.held = False
        self.retry()

    def drain(self) -> None:
        """After the agent's end: read the rest, a pipe's worth, which a hold need not keep out."""
        self.draining = True
        self.retry()

    def sync(self) -> None:
        for stream in self._streams:
            stream.sync()

    def retry(self) -> None:
        """Read on, if the disk takes what it refused."""
        self._loop.cancel(self.retry)
        if self.error is not None:
            for stream in self._streams:
                try:
                    stream.store()
                except OSError as error:
                    self.refused(stream.name, error)
                    return
            self.error = self.error_number = None
            self._tell_error()
        if self.draining:
            self._loop.after(DRAIN_LIMIT_S, self._give_up)
        self._watch()

    def refused(self, name: str, error: OSError) -> None:
        """The disk refuses a file: what is in the pipes stays there until it takes it."""
        self._loop.cancel(self._give_up)
        self._loop.after(STORAGE_RETRY_S, self.retry)
        text = f"cannot store {name}: {error.strerror}"
        if text != self.error:
            log(text)
            self.error, self.error_number = text, error.errno
            self._tell_error()
            self._watch()

    def _watch(self) -> None:
        reads = self.error is None and not self.flooded
        wanted = reads and (self.draining or not self.held)
        for stream in self._streams:
            if stream.pipe >= 0:
                mask = select.EPOLLIN if wanted else 0
                self._loop.watch(stream.pipe, mask, partial(self._pump, stream))

    def _pump(self, stream: Stream) -> None:
        try:
            alive = stream.pump()
        except OSError as error:
            self.refused(stream.name, error)
            return
        if not alive:
            self._close(stream)
        if self.flooded:
            self._watch()
            self._tell_flood()

    def _give_up(self) -> None:
        for stream in self._streams:
            self._close(stream)

    def _close(self, stream: Stream) -> None:
        if stream.pipe >= 0:
            self._loop.close(stream.pipe)
            stream.pipe = -1
