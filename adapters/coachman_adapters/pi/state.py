"""The memory of a conversation with pi."""

from typing import Any

from attrs import define, field

from coachman_adapters.turn_state import TurnState

OPENING = "opening"


@define
class State(TurnState):
    """``prompt``: the id of the running prompt's command; ``runs``: pi has begun with it.

    ``stop``: {reason, message} of the newest answer of the model. ``told``: how many characters
    of each block of the current message were told. ``asks`` have {id, call}.
    """

    phase: str = OPENING
    provider: str | None = None
    model: str | None = None
    prompt: str | None = None
    runs: bool = False
    stop: dict[str, Any] | None = None
    message: int = 0
    told: dict[str, int] = field(factory=dict)
    counters: dict[str, int] = field(factory=dict)
    cost_usd: float = 0.0
