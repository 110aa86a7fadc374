"""How many of the user's programs run at once, and how many of them for one family of runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from attrs import define, field

AT_ONCE = 4
OF_ONE = 2


@define
class _Share:
    """What one family may have, and how many of it have or want it."""

    limiter: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(OF_ONE))
    users: int = 0


class Places:
    """``AT_ONCE`` places, of which each one that asks has and waits for ``OF_ONE`` at most.

    So whoever asks without an end stands in the common queue no more often than that, and
    others are served between.
    """

    def __init__(self) -> None:
        self._all = trio.CapacityLimiter(AT_ONCE)
        self._shares: dict[str, _Share] = {}

    def __repr__(self) -> str:
        return f"<Places, {self._all.borrowed_tokens} of {AT_ONCE} taken>"

    @asynccontextmanager
    async def taken(self, whose: str) -> AsyncIterator[None]:
        """Wait for a place, and have it."""
        share = self._shares.setdefault(whose, _Share())
        share.users += 1
        try:
            async with share.limiter, self._all:
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[whose]
