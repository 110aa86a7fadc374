"""How many runs are active at once: first come, first served."""

from collections import deque
from collections.abc import Callable


class Admission:
    """A counter of slots with a queue in front of it. Slots are held by run id."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._paused = False
        self._holders: set[str] = set()
        self._queue: deque[tuple[str, Callable[[], None]]] = deque()

    def __repr__(self) -> str:
        return f"<Admission {len(self._holders)}/{self.limit}, {len(self._queue)} queued>"

    @property
    def active(self) -> int:
        """Slots in use."""
        return len(self._holders)

    @property
    def is_full(self) -> bool:
        """Whether whoever comes now has to wait."""
        return bool(self._queue) or self.active >= self.limit

    @property
    def queued(self) -> int:
        """Runs that wait for one."""
        return len(self._queue)

    def pause(self, paused: bool) -> None:
        """Give no slot to anybody, or go on doing so."""
        self._paused = paused
        self._serve()

    def enter(self, run: str, admitted: Callable[[], None]) -> None:
        """Queue for a slot; ``admitted`` is called once it is ours, perhaps at once."""
        self._queue.append((run, admitted))
        self._serve()

    def take(self, run: str) -> None:
        """Hold a slot without asking: the run was active before this daemon."""
        self._holders.add(run)

    def leave(self, run: str) -> None:
        """Give the slot, or the place in the queue, back."""
        self._holders.discard(run)
        self._queue = deque(entry for entry in self._queue if entry[0] != run)
        self._serve()

    def _serve(self) -> None:
        while not self._paused and self._queue and len(self._holders) < self.limit:
            run, admitted = self._queue.popleft()
            self._holders.add(run)
            admitted()
