"""The loop that the whole keeper runs on: descriptors and timers."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[], None]


class Loop:
    """A level-triggered epoll loop; handlers must tolerate being called for nothing.

    Each handler has one timer at most, on the monotonic clock.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[int, Handler]] = {}
        self._due: dict[Handler, float] = {}

    def watch(self, fd: int, mask: int, handler: Handler) -> None:
        """Call the handler when fd has one of these events; 0 stops watching it."""
        before = self._watched.get(fd, (0, handler))[0]
        if mask:
            self._watched[fd] = (mask, handler)
        else:
            self._watched.pop(fd, None)
        if not before and mask:
            self._epoll.register(fd, mask)
        elif before and not mask:
            self._epoll.unregister(fd)
        elif before != mask:
            self._epoll.modify(fd, mask)

    def ignore(self, fd: int) -> None:
        self.watch(fd, 0, lambda: None)

    def close(self, fd: int) -> None:
        """Stop watching and close; an epoll forgets only what no process holds open."""
        self.ignore(fd)
        os.close(fd)

    def after(self, delay_s: float, handler: Handler) -> None:
        """Call the handler once, so much later; it replaces what was agreed before."""
        self._due[handler] = time.monotonic() + delay_s

    def cancel(self, handler: Handler) -> None:
        self._due.pop(handler, None)

    def turn(self) -> None:
        """Wait for events or the next timer, and call whom they concern."""
        for fd, _ in self._epoll.poll(self._timeout_s()):
            if fd in self._watched:
                self._watched[fd][1]()
        now = time.monotonic()
        for handler, moment in tuple(self._due.items()):
            # An earlier handler may have cancelled it or put it off.
            if moment <= now and self._due.get(handler) == moment:
                del self._due[handler]
                handler()

    def _timeout_s(self) -> float | None:
        if not self._due:
            return None
        return max(0.0, min(self._due.values()) - time.monotonic())
