"""The memory of conversations with agents that take one prompt after the other."""

from typing import Any

from attrs import define, field

from coachman_adapters.line_conversation import LineState

# Prompts are sent in the one, and fail in the other; what is before them is each agent's own.
READY = "ready"
FAILED = "failed"


@define
class TurnState(LineState):
    """The whole memory of such a conversation.

    ``requests``: ours that are unanswered, id to what each is. ``queue``: prompts not yet sent.
    ``closing``: there will be no more of them. ``asks``: open questions, key to what an answer
    needs; ``id`` is the agent's own; ``crowded``: more came than are kept open, and that was told.
    ``failure``: why no prompt is taken; ``hint``: what the agent
    said last that may explain its end.
    """

    phase: str = ""
    next_id: int = 1
    requests: dict[str, str] = field(factory=dict)
    queue: list[str] = field(factory=list)
    closing: bool = False
    asks: dict[str, dict[str, Any]] = field(factory=dict)
    asked: int = 0
    crowded: bool = False
    failure: dict[str, Any] | None = None
    hint: str | None = None
