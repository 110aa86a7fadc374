"""The whole memory of a conversation with pi, as JSON values: what a snapshot holds."""

import copy
from typing import Any

import attrs
from attrs import define, field

# The phases, in order; ``failed`` is reached from both.
OPENING = "opening"
READY = "ready"
FAILED = "failed"


@define
class State:
    """Every member is JSON, so that a snapshot is complete by construction.

    ``commands``: our unanswered commands, id to type. ``queue``: prompts not yet sent.
    ``prompt``: the id of the running prompt's command; ``runs``: pi has begun with it.
    ``stop``: {reason, message} of the newest answer of the model. ``told``: how many characters
    of each block of the current message were told. ``asks``: open questions, key to {dialog,
    call}.
    """

    phase: str = OPENING
    next_id: int = 1
    commands: dict[str, str] = field(factory=dict)
    provider: str | None = None
    model: str | None = None
    queue: list[str] = field(factory=list)
    prompt: str | None = None
    runs: bool = False
    stop: dict[str, Any] | None = None
    cancelled: bool = False
    closing: bool = False
    stdin_closed: bool = False
    message: int = 0
    told: dict[str, int] = field(factory=dict)
    asks: dict[str, dict[str, str]] = field(factory=dict)
    asked: int = 0
    tools: dict[str, dict[str, Any]] = field(factory=dict)
    counters: dict[str, int] = field(factory=dict)
    cost_usd: float = 0.0
    failure: dict[str, Any] | None = None
    noise: int = 0
    noise_held: dict[str, Any] | None = None

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(attrs.asdict(self, recurse=False))
