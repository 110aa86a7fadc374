"""How agents differ behind the same protocol, as data."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from coachman_adapters.conversation import Usage

MAX_COUNT = 2**53
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


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

    ``settle_s``: how long after a bounded run's turn late updates are waited for. ``replay_s``:
    how long it must be silent after a load, where it goes on telling the past after its answer.
    ``result_usage``: "turn" where a prompt's result reports the whole turn, "session" where it
    reports all turns so far, "none" where it reports something else. ``input_includes_cached``:
    how it counts. ``cost``: "session" where usage updates carry the session's cost.
    ``title_is_name``: the first title of a tool call is the tool's name. ``asks_first``: of a
    tool call that it asks about it tells nothing more before the call's end. ``mode``: what it
    must be set to so that it asks at all. ``logins``: variables and the ways to log in with
    them, for one that wants to be told. ``session_form``: a pattern of its session ids, where
    it takes other words for something else than an id. ``epilogue`` reads the usage out of the
    output of the launch plan's epilogue.
    """

    settle_s: float = 0.25
    replay_s: float | None = None
    result_usage: str = "turn"
    input_includes_cached: bool = False
    cost: str = "none"
    title_is_name: bool = False
    asks_first: bool = False
    mode: str | None = None
    logins: Mapping[str, str] = field(factory=dict)
    session_form: str | None = None
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
