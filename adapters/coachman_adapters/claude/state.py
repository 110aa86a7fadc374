"""The memory of a conversation with Claude Code."""

from typing import Any

from attrs import define, field

from coachman_adapters.turn_state import TurnState

NEW = "new"
INITIALIZING = "initializing"


@define
class State(TurnState):
    """``running``: a prompt was sent and has no result yet.

    ``streamed``: per kind of block, the message that came in pieces. ``api_error`` and ``limit``:
    what was last told of a failed request and of a usage limit.
    """

    phase: str = NEW
    session: str | None = None
    agent_version: str | None = None
    running: bool = False
    message: str | None = None
    streamed: dict[str, str] = field(factory=dict)
    api_error: str | None = None
    limit: dict[str, Any] | None = None
    last_result: str | None = None
    counters: dict[str, int] = field(factory=dict)
    turn_counters: dict[str, int] = field(factory=dict)
    cost_usd: float | None = 0.0
    model: str | None = None
