"""Locks by name, each there for as long as somebody has or wants it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class Locks:
    """A lock for each key that is in use."""

    def __init__(self) -> None:
        self._locks: dict[str, trio.Lock] = {}

    def __repr__(self) -> str:
        return f"<Locks of {len(self._locks)} keys>"

    @asynccontextmanager
    async def held(self, key: str | None) -> AsyncIterator[None]:
        """Alone with this key; without one nobody is in the way."""
        if key is None:
            yield
            return
        lock = self._locks.setdefault(key, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            # Who waited for it holds it by now.
            if not lock.locked():
                self._locks.pop(key, None)
