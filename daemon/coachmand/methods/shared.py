"""What many followers of the same have in common: when they look, and what they are sent."""

from collections.abc import Sequence

import trio
from attrs import define, field

from ..journal.order import Placed

# Of a busy moment all is sent at once: each of many followers wakes no more often. The more
# there are, the longer is gathered; all at the same moments, so that one's work is all's.
GATHER_S, GATHER_MORE_S, GATHER_MOST_S = 0.01, 0.001, 0.05
SHARED_BYTES = 256 * 1024
SHARED_BATCHES = 4


@define
class Shared:
    """What many followers of the same are sent: put together once."""

    followers: int = 0
    _batches: dict[tuple[object, ...], bytes] = field(factory=dict)

    def lines(self, of: tuple[object, ...], head: bytes, placed: Sequence[Placed]) -> bytes:
        """Notifications of lines, each begun with ``head``; ``of`` says how they were chosen."""
        first, last = placed[0].g, placed[-1].g
        key = (head, of, first, last, len(placed))
        data = self._batches.get(key)
        if data is None:
            data = b"".join([head + one.wire() for one in placed])
            # Lines without a place are not told apart by it.
            if first and len(data) <= SHARED_BYTES:
                if len(self._batches) >= SHARED_BATCHES:
                    del self._batches[next(iter(self._batches))]
                self._batches[key] = data
        return data

    async def gather(self) -> None:
        """Let more come, until the next moment at which all look."""
        every_s = min(GATHER_MOST_S, max(GATHER_S, GATHER_MORE_S * self.followers))
        await trio.sleep_until((trio.current_time() // every_s + 1) * every_s)
