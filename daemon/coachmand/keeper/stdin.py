"""The agent's standard input: taken into a log, fed from there."""

from __future__ import annotations

import os
import select

from ..failpoints import reach
from . import STDIN_LOG_NAME
from .errors import Refused
from .files import CHUNK_BYTES, fdatasync, log, open_log, write_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .loop import Loop


class Stdin:
    """What was taken is in a log, and fed to the pipe from there, so that memory stays bounded.

    Offsets count from the run's first byte. `pipe` is -1 when the agent can be fed no more, and
    from the start for one that gets no stdin.
    """

    def __init__(self, loop: Loop, pipe: int, directory: int) -> None:
        self.taken = 0
        self.fed = 0
        self._loop = loop
        self._pipe = pipe
        self._absent = pipe < 0
        self._closing = False
        self._log = open_log(directory, STDIN_LOG_NAME)

    @property
    def closed(self) -> bool:
        return self._pipe < 0

    def take(self, offset: int, content: bytes) -> None:
        """Append what is new of bytes at an offset, and feed it. Raises Refused."""
        if self._absent:
            raise Refused("no_stdin", "cannot write: this agent was started without stdin")
        if offset > self.taken:
            raise Refused("gap", "cannot write: earlier bytes are missing", taken=self.taken)
        fresh = content[self.taken - offset :]
        if fresh and self._closing:
            raise Refused("stdin_closed", "cannot write: stdin was closed", taken=self.taken)
        try:
            while fresh:
                written = write_at(self._log, fresh, self.taken)
                self.taken += written
                fresh = fresh[written:]
            reach("keeper.taken")
        except OSError as error:
            text = f"cannot write: {STDIN_LOG_NAME}: {error.strerror}"
            raise Refused("storage", text, taken=self.taken, errno=error.errno) from None
        finally:
            self._feed()

    def close(self) -> None:
        """Let the agent see the end after everything taken was fed."""
        self._closing = True
        self._feed()

    def sync(self) -> None:
        fdatasync(self._log)

    @property
    def _hungry(self) -> bool:
        """Whether the pipe waits for bytes or for its end."""
        return self._pipe >= 0 and (self.fed < self.taken or self._closing)

    def _feed(self) -> None:
        if self._hungry and not self._feed_chunk():
            self._loop.close(self._pipe)
            self._pipe = -1
        if self._pipe >= 0:
            # Unwatched when idle: a pipe without a reader is ready for ever.
            self._loop.watch(self._pipe, select.EPOLLOUT if self._hungry else 0, self._feed)

    def _feed_chunk(self) -> bool:
        """Feed one chunk; False when the pipe is to be closed."""
        if self.fed < self.taken:
            try:
                self.fed += os.write(self._pipe, os.pread(self._log, CHUNK_BYTES, self.fed))
            except BlockingIOError:
                return True
            except OSError as error:
                if not isinstance(error, BrokenPipeError):
                    log(f"cannot feed stdin: {error}")
                return False
        return self.fed < self.taken or not self._closing
