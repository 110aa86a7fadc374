"""How agents differ behind the same protocol, as data."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from coachman_adapters.conversation import Usage

MAX_COUNT = 2**53


@frozen
class Conversed:
    """What an epilogue needs to find this conversation's part of a session.

    ``prompts``: how many were sent; ``first_message`` and ``first_tool_call``: the
    first ids seen; ``resumed``: whether the session had a past.
    """

    prompts: int
    first_message: str | None
    first_tool_call: str | None
    resumed: bool


@frozen
class Quirks:
    """Facts about one agent's dialect.

    ``settle_s``: how long after a bounded run's turn late updates are waited for.
    ``result_usage``: "turn" where a prompt's result reports the whole turn, "none" where
    it reports something else. ``input_includes_cached``: how it counts. ``cost``:
    "session" where usage updates carry the session's cost. ``title_is_name``: the first
    title of a tool call is the tool's name. ``epilogue`` reads the usage out of the
    output of the launch plan's epilogue.
    """

    settle_s: float = 0.25
    result_usage: str = "turn"
    input_includes_cached: bool = False
    cost: str = "none"
    title_is_name: bool = False
    epilogue: Callable[[bytes, Conversed], Usage | None] | None = None


def count(value: Any) -> int:
    """A token count, 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < MAX_COUNT else 0


def turn_counters(usage: Mapping[str, Any], quirks: Quirks) -> dict[str, int]:
    """One turn's counters from a prompt result's ``usage``."""
    cached = count(usage.get("cachedReadTokens"))
    given = count(usage.get("inputTokens")) + count(usage.get("cachedWriteTokens"))
    fresh = max(0, given - cached) if quirks.input_includes_cached else given
    output, reasoning = count(usage.get("outputTokens")), count(usage.get("thoughtTokens"))
    total = count(usage.get("totalTokens")) or fresh + cached + output + reasoning
    return {
        "input": fresh,
        "cached_input": cached,
        "output": output,
        "reasoning": reasoning,
        "total": total,
    }
