"""The whole memory of a conversation with Claude Code, as JSON values."""

import copy
from typing import Any

import attrs
from attrs import define, field

NEW = "new"
INITIALIZING = "initializing"
READY = "ready"
FAILED = "failed"


@define
class State:
    """Every member is JSON, so that a snapshot is complete by construction.

    ``requests``: our unanswered control requests, id to subtype. ``queue``: prompts not yet sent.
    ``running``: a prompt was sent and has no result yet. ``asks``: unanswered questions, key to
    what their answer needs. ``streamed``: per kind of block, the message that came in pieces.
    ``api_error`` and ``limit``: what was last told of a failed request and of a usage limit.
    """

    phase: str = NEW
    next_id: int = 1
    requests: dict[str, str] = field(factory=dict)
    session: str | None = None
    agent_version: str | None = None
    queue: list[str] = field(factory=list)
    running: bool = False
    cancelled: bool = False
    closing: bool = False
    stdin_closed: bool = False
    asks: dict[str, dict[str, Any]] = field(factory=dict)
    asked: int = 0
    tools: dict[str, dict[str, Any]] = field(factory=dict)
    message: str | None = None
    streamed: dict[str, str] = field(factory=dict)
    api_error: str | None = None
    limit: dict[str, Any] | None = None
    last_result: str | None = None
    failure: dict[str, Any] | None = None
    noise: int = 0
    noise_held: dict[str, Any] | None = None
    counters: dict[str, int] = field(factory=dict)
    turn_counters: dict[str, int] = field(factory=dict)
    cost_usd: float | None = 0.0
    model: str | None = None

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(attrs.asdict(self, recurse=False))
