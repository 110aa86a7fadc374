"""The whole memory of a conversation with the app server, as JSON values."""

import copy
from typing import Any

import attrs
from attrs import define, field

from coachman_adapters.codex import frames
from coachman_adapters.conversation import Write

# The phases, in order; ``failed`` is reached from each of the first two.
INITIALIZING = "initializing"
OPENING = "opening"
READY = "ready"
FAILED = "failed"


@define
class State:
    """Every member is JSON, so that a snapshot is complete by construction.

    ``requests``: our unanswered requests, id to method. ``queue``: prompts not yet sent.
    ``prompted``: one is sent and not over; ``turn``: codex's id of it, ``turns``: of all of
    ours; ``running``: codex works at it. ``cancelled``: it is to be interrupted.
    ``interrupted``: it was, and what it left running is being ended. ``asks``: open questions,
    key to {id, results, allow, cancel, call}. ``patches``: the tool calls that change files and
    are not over, for the question about each. ``before``: what the thread had counted.
    """

    phase: str = INITIALIZING
    next_id: int = 1
    requests: dict[str, str] = field(factory=dict)
    session: str | None = None
    version: str | None = None
    model: str | None = None
    provider: str | None = None
    queue: list[str] = field(factory=list)
    prompted: bool = False
    turn: str | None = None
    turns: list[str] = field(factory=list)
    running: bool = False
    cancelled: bool = False
    interrupted: bool = False
    closing: bool = False
    stdin_closed: bool = False
    asks: dict[str, dict[str, Any]] = field(factory=dict)
    asked: int = 0
    tools: dict[str, dict[str, Any]] = field(factory=dict)
    told: dict[str, int] = field(factory=dict)
    patches: dict[str, dict[str, Any]] = field(factory=dict)
    before: dict[str, int] | None = None
    failure: dict[str, Any] | None = None
    hint: str | None = None
    noise: int = 0
    noise_held: dict[str, Any] | None = None

    def call(self, method: str, params: dict[str, Any]) -> Write:
        """Send a request and remember that its answer is due."""
        number = self.next_id
        self.next_id += 1
        self.requests[str(number)] = method
        return Write(frames.request(number, method, params))

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(attrs.asdict(self, recurse=False))
