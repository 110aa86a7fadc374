"""How many runs are active at once, and who is next: the one that waited longest, by priority."""

import os
import time
from collections.abc import Callable

from attrs import frozen

# A priority more is worth so long a wait. As it is a constant, nobody waits for ever: whoever
# comes later is once behind, however important.
PRIORITY_S = 600.0
# What machines bear: agents wait for their models most of the time, and their memory stays.
RUNS_PER_CORE = 4
BYTES_PER_RUN = 1 << 30
FEWEST, MOST = 2, 64


def default_active() -> int:
    """How many runs this machine is good for, by its cores and its memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    runs = min(len(os.sched_getaffinity(0)) * RUNS_PER_CORE, memory // BYTES_PER_RUN)
    return max(FEWEST, min(MOST, runs))


@frozen
class Waiter:
    """A run that waits for a place; ``account`` is whose provider's limits it shares."""

    run: str
    admitted: Callable[[], None]
    account: str
    rank: float


class Admission:
    """Places among the active runs, held by run id, with a queue in front of them.

    Runs of an account that is held wait for those that hold it, others pass them by.
    """

    def __init__(self, limit: int, most_queued: int | None = None) -> None:
        self.limit = limit
        self.most_queued = most_queued
        self._paused: set[str] = set()
        # Runs found again, of which nobody knows yet whether they hold a place or want one.
        self._expected: set[str] = set()
        self._holders: set[str] = set()
        self._queue: list[Waiter] = []
        # The account that a run holds, and until when (ms of the epoch).
        self._held: dict[str, tuple[str, int]] = {}

    def __repr__(self) -> str:
        return f"<Admission {len(self._holders)}/{self.limit}, {len(self._queue)} queued>"

    @property
    def active(self) -> int:
        """Places in use."""
        return len(self._holders)

    @property
    def is_full(self) -> bool:
        """Whether whoever comes now has to wait."""
        return bool(self._queue) or self.active >= self.limit

    @property
    def takes_no_more(self) -> bool:
        """Whether not even the queue has room."""
        return self.most_queued is not None and len(self._queue) >= self.most_queued

    @property
    def queued(self) -> int:
        """Runs that wait for a place."""
        return len(self._queue)

    def pause(self, paused: bool, why: str) -> None:
        """Give no place to anybody while anything is ``why`` not, or go on doing so."""
        (self._paused.add if paused else self._paused.discard)(why)
        self._serve()

    def expect(self, run: str) -> None:
        """Give no place to anybody before ``run`` has entered, taken its place or left."""
        self._expected.add(run)

    def enter(
        self,
        run: str,
        admitted: Callable[[], None],
        *,
        account: str = "",
        priority: int = 0,
        since_s: float | None = None,
    ) -> None:
        """Queue for a place; ``admitted`` is called once it is ours, perhaps at once.

        ``since_s`` (of the epoch) is when the wait began: a daemon's restart costs nobody a place.
        """
        self._expected.discard(run)
        if run in self._holders:
            # It was given one in advance, which is no use while its account is held.
            if not self._paused and account not in self.held():
                admitted()
                return
            self._holders.discard(run)
        since_s = time.time() if since_s is None else since_s
        rank = since_s - priority * PRIORITY_S
        self._queue.append(Waiter(run, admitted, account, rank))
        self._queue.sort(key=lambda waiter: waiter.rank)
        self._serve()

    def take(self, run: str) -> None:
        """Hold a place without asking: the run was active before this daemon."""
        self._expected.discard(run)
        self._holders.add(run)
        self._serve()

    def leave(self, run: str) -> None:
        """Give the place, or that in the queue, back; or say that none is wanted for now."""
        self._expected.discard(run)
        self._holders.discard(run)
        self._queue = [waiter for waiter in self._queue if waiter.run != run]
        self._serve()

    def hold(self, account: str, run: str, until_ms: int) -> None:
        """Let the others of an account wait until ``run`` releases it, at about ``until_ms``."""
        self._held[run] = account, until_ms

    def held(self) -> dict[str, int]:
        """The accounts whose provider takes no more, and until when, as far as that is known."""
        found: dict[str, int] = {}
        for account, until_ms in self._held.values():
            found[account] = max(until_ms, found.get(account, 0))
        return found

    def waiting(self, account: str) -> int:
        """How many runs of an account wait for a place."""
        return sum(waiter.account == account for waiter in self._queue)

    def release(self, run: str) -> None:
        """``run`` does not hold its account any more."""
        if self._held.pop(run, None) is not None:
            self._serve()

    def _serve(self) -> None:
        while not (self._paused or self._expected) and len(self._holders) < self.limit:
            held = self.held()
            waiter = next((each for each in self._queue if each.account not in held), None)
            if waiter is None:
                return
            self._queue.remove(waiter)
            self._holders.add(waiter.run)
            waiter.admitted()
