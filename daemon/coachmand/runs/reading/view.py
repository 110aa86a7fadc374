"""A run as its journal tells it: what is known of it at this moment.

Two members are not the journal's: `stdin_closed`, which the keeper knows as well, and
`inputs`, which a checkpoint empties.

A living run keeps its view current by applying each line it appends; a starting
daemon gets the same view by applying the lines it finds.
"""

from collections.abc import Mapping
from typing import Any

import cattrs
from attrs import define, field

from ..facts.clock import Stopwatch
from ..facts.members import Permission, Question, Queued, Site
from .folding import READERS

Event = Mapping[str, Any]


@define
class View:
    """A run as its journal tells it.

    All members are JSON values (or sets of strings), so that a view can be checkpointed.
    """

    state: str = "queued"
    reason: str | None = None
    seq: int = 0
    first_g: int = 0
    last_g: int = 0
    last_ms: int = 0
    queued_ms: int = 0
    started_ms: int | None = None
    first_event_ms: int | None = None
    first_response_ms: int | None = None
    ended_ms: int | None = None
    waiting_since_ms: int | None = None
    waiting_ms: int = 0
    attempt: int = 0
    attempt_over: bool = False
    turn: int = 0
    turn_started: int = 0
    turn_over: bool = False
    turn_ended: int = 0
    turn_recorded: int = 0
    interrupted: int = 0
    interrupted_by: dict[str, Any] | None = None
    prompts: int = 1
    queue: list[Queued] = field(factory=lambda: [Queued(1)])
    prompt: Queued = field(factory=lambda: Queued(1))
    prompt_keys: dict[str, int] = field(factory=dict)
    unsent: int = 0
    damaged: int = 0
    faults: list[str] = field(factory=list)
    unread: str | None = None
    closing: bool = False
    parked_until: dict[str, Any] | None = None
    working: Stopwatch = field(factory=Stopwatch)
    in_turn: Stopwatch = field(factory=Stopwatch)
    asleep: dict[str, Any] | None = None
    warned: list[str] = field(factory=list)
    stalls_at: int | None = None
    open_tools: set[str] = field(factory=set)
    left_tools: set[str] = field(factory=set)
    session: str | None = None
    first_session: str | None = None
    agent_version: str | None = None
    site: Site = field(factory=Site)
    n: int = 0
    inputs: list[dict[str, Any]] = field(factory=list)
    told_start: bool = False
    cancel_told: bool = False
    stdin_closed: bool = False
    finished: bool = False
    pending: dict[str, Permission] = field(factory=dict)
    answered: dict[str, dict[str, Any]] = field(factory=dict)
    questions: dict[str, Question] = field(factory=dict)
    replies: dict[str, dict[str, Any]] = field(factory=dict)
    questions_asked: int = 0
    allowed: int = 0
    denied: int = 0
    denied_before: int = 0
    asked: int = 0
    asked_before: int = 0
    turn_stop_reason: str | None = None
    turn_error: dict[str, Any] | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None
    cost: dict[str, Any] | None = None
    model: str | None = None
    provider: str | None = None
    session_counters: dict[str, float] | None = None
    message: list[str] = field(factory=list)
    message_id: str | None = None
    message_open: bool = False
    message_characters: int = 0
    message_from: int = 0
    message_cut: bool = False
    marker_line: str = ""
    fenced: bool = False
    now: str | None = None
    outcome: str | None = None
    stop_reason: str | None = None
    error: dict[str, str] | None = None
    exit: dict[str, Any] | None = None
    changes: dict[str, int] | None = None
    commits: dict[str, str | None] | None = None
    failure: str | None = None
    recorded: dict[str, Any] | None = None
    check: dict[str, Any] | None = None
    exceeded: dict[str, Any] | None = None
    turn_base: int = 0
    turn_transient: bool = False
    resets_at: int | None = None
    spoke: bool = False
    considered: int = 0
    again: dict[str, Any] | None = None
    credentials: dict[str, Any] | None = None
    tries: int = 0
    waits: int = 0
    used_tools: bool = False
    left: str | None = None
    times_same: int = 0
    tree: str | None = None
    resumes: str | None = None
    resumed_counters: dict[str, float] | None = None
    noted: list[str] = field(factory=list)
    usage_before: dict[str, int] | None = None
    cost_before: float | None = None

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<View {self.state}{why} attempt={self.attempt} turn={self.turn} seq={self.seq}>"

    @property
    def turn_runs(self) -> bool:
        """Whether the agent has a prompt that it has not done with."""
        return self.turn > self.turn_base and not self.turn_over

    @property
    def goes_on(self) -> bool:
        """Whether the run waits to begin another attempt."""
        return self.state == "waiting" and self.again is not None

    @property
    def is_between(self) -> bool:
        """Whether it waits without an agent: for its next attempt, or for what a shell lends."""
        return (self.goes_on and self.attempt_over) or self.credentials is not None

    @property
    def final_message(self) -> str:
        """The agent's last message so far; of a long one (``message_cut``) its end."""
        return "".join(self.message)

    def apply(self, event: Event) -> None:
        """Take one line in."""
        self.seq = event["seq"]
        self.last_ms = event["ts"]
        self.last_g = event.get("g", 0)
        if self.seq == 1:
            self.first_g = self.last_g
        if "n" in event:
            self.n = event["n"]
            if self.warned:
                # Silence is over; should it come again, it is warned of again.
                self.warned = [name for name in self.warned if name != "stall"]
                self.stalls_at = None
            self.first_event_ms = self.first_event_ms or event["ts"]
        if (reader := READERS.get(event["type"])) is not None:
            reader(self, event)

    def snapshot(self) -> dict[str, Any]:
        """The view as JSON."""
        return _CONVERTER.unstructure(self)  # type: ignore[no-any-return]

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> "View":
        """A view from its snapshot; members of another version are left at their defaults."""
        view: View = _CONVERTER.structure(dict(snapshot), cls)
        if "queue" not in snapshot and view.turn:
            view.queue = []  # written before prompts were queued: the one there was is told
        return view


_CONVERTER = cattrs.Converter(unstruct_collection_overrides={set: sorted})
