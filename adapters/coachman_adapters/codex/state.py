"""The memory of a conversation with the app server."""

from typing import Any

from attrs import define, field

from coachman_adapters.codex import frames
from coachman_adapters.conversation import Write
from coachman_adapters.turn_state import TurnState

# The phases before ``ready``, in order; ``failed`` is reached from each of them.
INITIALIZING = "initializing"
OPENING = "opening"


@define
class State(TurnState):
    """``prompted``: a prompt is sent and its turn not over.

    ``turn``: codex's id of it, ``turns``: of all of ours; ``running``: codex works at it.
    ``interrupted``: it was, and what it left running is being ended. ``asks`` have {id, results,
    allow, cancel, call}. ``patches``: the tool calls that change files and are not over, for the
    question about each. ``before``: what the thread had counted.
    """

    phase: str = INITIALIZING
    session: str | None = None
    version: str | None = None
    model: str | None = None
    provider: str | None = None
    prompted: bool = False
    turn: str | None = None
    turns: list[str] = field(factory=list)
    running: bool = False
    interrupted: bool = False
    told: dict[str, int] = field(factory=dict)
    patches: dict[str, dict[str, Any]] = field(factory=dict)
    before: dict[str, int] | None = None

    def call(self, method: str, params: dict[str, Any]) -> Write:
        """Send a request and remember that its answer is due."""
        number = self.next_id
        self.next_id += 1
        self.requests[str(number)] = method
        return Write(frames.request(number, method, params))
