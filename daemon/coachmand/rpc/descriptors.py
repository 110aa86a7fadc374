"""Descriptors that come along with requests, and which request each came with."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_HANDED: ContextVar[tuple[int, ...]] = ContextVar("handed", default=())


def handed() -> tuple[int, ...]:
    """Those that came with the request that is being carried out, closed once it has been."""
    return _HANDED.get()


@contextmanager
def handing(descriptors: tuple[int, ...]) -> Iterator[None]:
    """Carry out a request that these came with."""
    token = _HANDED.set(descriptors)
    try:
        yield
    finally:
        _HANDED.reset(token)


class Dealer:
    """Deals what came with chunks of a stream to its lines.

    Descriptors come with bytes, and are of the line in which these bytes end.
    """

    def __init__(self) -> None:
        self._of_unfinished: list[int] = []

    def __repr__(self) -> str:
        return f"<Dealer, {len(self._of_unfinished)} of an unfinished line>"

    def deal(self, lines: int, came: list[int], *, ends_line: bool) -> list[list[int]]:
        """Those of each line that a chunk completed; ``ends_line``: it ends with the last one."""
        dealt: list[list[int]] = [[] for _ in range(lines)]
        if lines:
            dealt[0] = self.rest()
        (dealt[-1] if ends_line else self._of_unfinished).extend(came)
        return dealt

    def rest(self) -> list[int]:
        """Those of the line that is not finished, which are the caller's from here on."""
        rest, self._of_unfinished = self._of_unfinished, []
        return rest
