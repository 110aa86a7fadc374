"""A program of the user's that is fed lines on its stdin: what it took of them, how it ended."""

import array
import fcntl
import os
import termios
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import trio
from attrs import frozen

from . import hook
from .programs import Program

# Nothing tells when a pipe is empty: it is looked at, less and less often.
_DRAINED_FIRST_S, _DRAINED_MOST_S = 0.01, 1.0
# A daemon that leaves lets it come to the end of what it has.
LEAVING_LIMIT_S = 1.0


@frozen
class Patience:
    """How long it may take nothing, in seconds: until that is told, until it is ended."""

    told_s: float = 60.0
    ended_s: float = 600.0
    look_s: float = 5.0


class Fed:
    """A program that runs. ``given`` is the number of the last line written to it whole.

    ``slow`` is called with True once it took nothing for long, with False when it goes on. The
    lines that it has not read yet are in its pipe alone: the kernel bounds them.
    """

    def __init__(
        self, process: trio.Process, after: int, patience: Patience, slow: Callable[[bool], None]
    ) -> None:
        assert process.stdin is not None
        self.given = self._taken = after
        # It was given all, and read it.
        self.has_all = False
        self._process = process
        self._fd = process.stdin.fileno()  # type: ignore[attr-defined]
        self._patience = patience
        self._slow = slow
        self._pending: deque[tuple[int, int]] = deque()
        self._written = self._read = 0
        self._is_deaf = self._is_over = False
        self._hung_s: float | None = None
        self._complaint = bytearray()

    def __repr__(self) -> str:
        return f"<Fed {self._process.pid} up to {self.given}>"

    @classmethod
    async def start(
        cls,
        program: Program,
        environment: Mapping[str, str],
        after: int,
        patience: Patience,
        slow: Callable[[bool], None],
    ) -> "Fed":
        """Run it, for the lines behind ``after``. Raises OSError, UntrustedError."""
        await trio.to_thread.run_sync(program.check)
        process = await hook.spawn(program, environment, answers=False)
        return cls(process, after, patience, slow)

    @property
    def taken(self) -> int:
        """The number of the last line of which it has read the end."""
        read = self._read_bytes()
        while self._pending and self._pending[0][0] <= read:
            self._taken = self._pending.popleft()[1]
        return self._taken

    async def serve(self, feed: Callable[["Fed"], Awaitable[None]]) -> str | None:
        """Let ``feed`` give it lines, and see it end; why that was not well, None where it was.

        A daemon that leaves meanwhile leaves it what is in its pipe.
        """
        scope = trio.CancelScope()
        try:
            with scope:
                async with trio.open_nursery() as nursery:
                    complained = await nursery.start(
                        hook.listen, self._process.stderr, self._complaint
                    )
                    nursery.start_soon(self._until_it_ends, scope, complained)
                    nursery.start_soon(self._watch, scope)
                    await feed(self)
                    await self._close()
                    await trio.sleep_forever()
        finally:
            self._read, self._is_over = self._read_bytes(), True
            await (hook.end(self._process) if scope.cancelled_caught else self._leave())
        return self._reason()

    async def give(self, number: int, line: bytes) -> None:
        """Write one line as soon as there is room for it."""
        rest = memoryview(line + b"\n")
        while rest:
            try:
                written = os.write(self._fd, rest)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._fd)
                continue
            except BrokenPipeError:
                # It ends just now, or is ended soon.
                self._is_deaf = True
                await trio.sleep_forever()
            self._written += written
            rest = rest[written:]
        self._pending.append((self._written, number))
        self.given = number

    async def _close(self) -> None:
        """End its input once it has read all: what it does then is no matter of what it missed."""
        pause_s = _DRAINED_FIRST_S
        while self._read_bytes() < self._written:
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _DRAINED_MOST_S)
        self._taken = self.given
        self._pending.clear()
        self.has_all = True
        assert self._process.stdin is not None
        await self._process.stdin.aclose()

    async def _until_it_ends(self, scope: trio.CancelScope, complained: trio.Event) -> None:
        await self._process.wait()
        with trio.move_on_after(hook.COMPLAINT_LIMIT_S):
            await complained.wait()
        scope.cancel()

    async def _watch(self, scope: trio.CancelScope) -> None:
        """See that it gets on, or at least to its end."""
        patience, read, since_s, is_slow = self._patience, 0, trio.current_time(), False
        while True:
            await trio.sleep(patience.look_s)
            now_s, before = trio.current_time(), read
            read = self._read_bytes()
            owes = self.has_all or self._is_deaf or read < self._written
            if read != before or not owes:
                since_s = now_s
            if is_slow != (now_s - since_s >= patience.told_s):
                is_slow = not is_slow
                self._slow(is_slow)
            if now_s - since_s >= patience.ended_s:
                self._hung_s = patience.ended_s
                scope.cancel()

    def _read_bytes(self) -> int:
        if self.has_all or self._is_over:
            return self._written if self.has_all else self._read
        unread = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, unread)
        return self._written - unread[0]

    def _reason(self) -> str | None:
        if self._hung_s is not None:
            what = "did not end" if self.has_all else "read nothing"
            return f"it {what} for {self._hung_s:g} s, and was ended"
        if self._process.returncode or not self.has_all:
            return hook.ended_with(self._process, self._complaint)
        return None

    async def _leave(self) -> None:
        with trio.CancelScope(shield=True):
            assert self._process.stdin is not None
            assert self._process.stderr is not None
            await self._process.stdin.aclose()
            with trio.move_on_after(LEAVING_LIMIT_S):
                await self._process.wait()
            await self._process.stderr.aclose()
