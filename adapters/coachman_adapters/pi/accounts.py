"""What a run used: the sum over the model's answers, each of which reports its own."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters.conversation import Action, Usage
from coachman_adapters.counting import added, count, dollars, to_digits
from coachman_adapters.pi.state import State


class Accounts:
    """Adds up one conversation's tokens and cost in ``state``."""

    def __init__(self, state: State) -> None:
        self._state = state

    def add(self, usage: Any) -> list[Action]:
        """Count one answer, a tool's own use of a model, or a compaction."""
        counters = _counters(usage) if isinstance(usage, Mapping) else {}
        # A provider that reports nothing reads as zeros: that is unknown, not free.
        if not any(counters.values()):
            return []
        state = self._state
        state.counters = added(state.counters, counters)
        state.cost_usd = to_digits(state.cost_usd + _cost(usage))
        # pi multiplies by its catalogue; a model without prices there costs 0.
        cost = state.cost_usd or None
        return [Usage(dict(state.counters), cost, state.model, state.provider)]


def _counters(usage: Mapping[str, Any]) -> dict[str, int]:
    """Of ``output``, reasoning is a part; what a cache was written with is no less input."""
    output, reasoning = count(usage.get("output")), count(usage.get("reasoning"))
    counters = {
        "input": count(usage.get("input")) + count(usage.get("cacheWrite")),
        "cached_input": count(usage.get("cacheRead")),
        "output": max(0, output - reasoning),
        "reasoning": reasoning,
    }
    return counters | {"total": sum(counters.values())}


def _cost(usage: Mapping[str, Any]) -> float:
    cost = usage.get("cost")
    return (dollars(cost.get("total")) if isinstance(cost, Mapping) else None) or 0.0
