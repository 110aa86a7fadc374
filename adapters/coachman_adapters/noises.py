"""Lines that are no protocol: told one by one at first, then in bundles."""

from typing import Any, Protocol

from coachman_adapters.conversation import Event
from coachman_adapters.events import NOISE
from coachman_adapters.lines import Line, noise

SINGLE_LINES = 64
BUNDLE_LINES = 256


class Counting(Protocol):
    """What is remembered of noise, in a conversation's state."""

    noise: int
    noise_held: dict[str, Any] | None


class Noises:
    """Counts noise in ``state``; an agent that only prints logs must not flood the journal."""

    def __init__(self, state: Counting) -> None:
        self._state = state

    def hear(self, line: Line) -> list[Event]:
        """The event to tell now, if any."""
        self._state.noise += 1
        event = noise(line)
        if self._state.noise <= SINGLE_LINES:
            return [event]
        if line.span.cut:
            # Each is told by itself: where all of it lies is in its event alone.
            return [*self.flush(), event]
        held = self._state.noise_held
        if held is None:
            self._state.noise_held = {**event.members, "lines": 1}
            return []
        held["bytes"] += line.span.size
        held["lines"] += 1
        return self.flush() if held["lines"] >= BUNDLE_LINES else []

    def flush(self) -> list[Event]:
        """What is still held back: the first line's text stands for the bundle."""
        held, self._state.noise_held = self._state.noise_held, None
        return [Event(NOISE, held)] if held else []
