"""The memory of an ACP conversation."""

from typing import Any

from attrs import define, field

from coachman_adapters.turn_state import TurnState

# The phases before ``ready``, in order; ``failed`` is reached from each of them.
NEW = "new"
INITIALIZING = "initializing"
OPENING = "opening"
REPLAYING = "replaying"
CONFIGURING = "configuring"


@define
class State(TurnState):
    """``prompt``: the id of the running prompt's request. ``asks`` have {id, options, call}."""

    phase: str = NEW
    session: str | None = None
    agent_version: str | None = None
    capabilities: dict[str, Any] = field(factory=dict)
    login: list[str] = field(factory=list)
    options: list[dict[str, Any]] = field(factory=list)
    to_set: list[list[str]] = field(factory=list)
    setting: list[str] | None = None
    mode: str | None = None
    authenticated: bool = False
    prompt: int | None = None
    counters: dict[str, int] = field(factory=dict)
    cost_usd: float | None = None
    cost_before: float | None = None
    session_counters: dict[str, float] | None = None
    model: str | None = None
    trouble: str | None = None
    prompts_sent: int = 0
    first_message: str | None = None
    first_tool_call: str | None = None
