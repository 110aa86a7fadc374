"""How agents differ behind the same protocol, as data."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from coachman_adapters.conversation import Usage
from coachman_adapters.counting import count

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
    ``title_is_name``: the first title of a tool call is the tool's name. ``asks_first``: of a
    tool call that it asks about it tells nothing more before the call's end. ``mode``: what it
    must be set to so that it asks; ``free_mode``: what to set instead where all is allowed, for
    one that keeps a sandbox of its own while it asks. ``logins``: variables and the ways to log
    in with them, for one that wants to be told. ``session_form``: a pattern of its session ids,
    where it takes other words for something else than an id. ``trouble``: a path in its updates
    and the value there that tells of a failed turn, for one that calls it "end_turn".

    ``usage``: where it counts: "turn", a prompt's result reports the whole turn; "session", it
    reports all turns so far; "steps", message chunks report one request to the model each;
    "none" where it reports something else. ``input_includes_cached``: how it counts, None where
    its total tells. ``cost``: "session" where usage updates carry the session's cost.
    ``epilogue`` reads the usage out of the output of the launch plan's epilogue.
    """

    settle_s: float = 0.25
    replay_s: float | None = None
    title_is_name: bool = False
    asks_first: bool = False
    mode: str | None = None
    free_mode: str | None = None
    logins: Mapping[str, str] = field(factory=dict)
    session_form: str | None = None
    trouble: tuple[str, ...] = ()
    usage: str = "turn"
    input_includes_cached: bool | None = None
    cost: str = "none"
    epilogue: Callable[[bytes, Conversed], Usage | None] | None = None


def counters_of(usage: Mapping[str, Any], quirks: Quirks) -> dict[str, int]:
    """The counters of one wire ``usage``."""
    cached = count(usage.get("cachedReadTokens"))
    given = count(usage.get("inputTokens")) + count(usage.get("cachedWriteTokens"))
    output, reasoning = count(usage.get("outputTokens")), count(usage.get("thoughtTokens"))
    total = count(usage.get("totalTokens"))
    within = quirks.input_includes_cached
    if within is None:
        within = total in (given + output, given + output + reasoning)
    fresh = max(0, given - cached) if within else given
    return {
        "input": fresh,
        "cached_input": cached,
        "output": output,
        "reasoning": reasoning,
        "total": total or fresh + cached + output + reasoning,
    }
