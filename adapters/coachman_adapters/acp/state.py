"""The whole memory of an ACP conversation, as JSON values: what a snapshot holds."""

import copy
from typing import Any

import attrs
from attrs import define, field

# The phases, in order. ``failed`` is reached from each of those before ``ready``.
NEW = "new"
INITIALIZING = "initializing"
OPENING = "opening"
REPLAYING = "replaying"
CONFIGURING = "configuring"
READY = "ready"
FAILED = "failed"


@define
class State:
    """Every member is JSON, so that a snapshot is complete by construction.

    ``requests``: our unanswered requests, id to method. ``queue``: prompts not yet
    sent. ``prompt``: the id of the running prompt's request. ``cancelled``: our
    cancel for it was sent. ``asks``: unanswered questions, key to {id, options}.
    """

    phase: str = NEW
    next_id: int = 1
    requests: dict[str, str] = field(factory=dict)
    session: str | None = None
    agent_version: str | None = None
    capabilities: dict[str, Any] = field(factory=dict)
    login: list[str] = field(factory=list)
    options: list[dict[str, Any]] = field(factory=list)
    to_set: list[list[str]] = field(factory=list)
    setting: list[str] | None = None
    mode: str | None = None
    authenticated: bool = False
    queue: list[str] = field(factory=list)
    prompt: int | None = None
    cancelled: bool = False
    closing: bool = False
    stdin_closed: bool = False
    asks: dict[str, dict[str, Any]] = field(factory=dict)
    asked: int = 0
    tools: dict[str, dict[str, Any]] = field(factory=dict)
    failure: dict[str, Any] | None = None
    hint: str | None = None
    noise: int = 0
    noise_held: dict[str, Any] | None = None
    counters: dict[str, int] = field(factory=dict)
    cost_usd: float | None = None
    cost_before: float | None = None
    session_counters: dict[str, float] | None = None
    model: str | None = None
    trouble: str | None = None
    prompts_sent: int = 0
    first_message: str | None = None
    first_tool_call: str | None = None

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(attrs.asdict(self, recurse=False))
