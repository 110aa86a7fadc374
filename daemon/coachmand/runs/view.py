"""What a run's journal says, folded: the one place that reads meaning from its lines.

Two members are not the journal's: `stdin_closed`, which the keeper knows as well, and
`inputs`, which a checkpoint empties.

A living run keeps its view current by applying each line it appends; a starting
daemon gets the same view by applying the lines it finds.
"""

from collections.abc import Callable, Mapping
from typing import Any

import cattrs
from attrs import define, field

from ..journal import vocabulary as v

Event = Mapping[str, Any]
MAX_MESSAGE_CHARACTERS = 512 * 1024
NOW_CHARACTERS = 120
QUESTION_CHARACTERS = 200


@define
class Permission:
    """A question of the agent, as it was asked."""

    request: str
    tool: dict[str, Any]
    question: str
    options: list[dict[str, Any]]
    requested_at: int
    deadline: int | None = None
    deadline_boottime_s: float | None = None
    deadline_boot: str | None = None

    def public(self) -> dict[str, Any]:
        """What clients are shown of it."""
        names = ("request", "question", "tool", "options", "requested_at", "deadline")
        return {name: getattr(self, name) for name in names}

    def summary(self) -> dict[str, Any]:
        """What is kept of it once it is settled; the journal has the rest."""
        return {
            "question": self.question[:QUESTION_CHARACTERS],
            "requested_at": self.requested_at,
            "deadline": self.deadline,
        }


@define
class Site:
    """Where a run works: known once its worktree exists, and recorded with its attempt.

    ``admin`` names the worktree's entry in the repository, ``subfolder`` the working directory
    below the worktree's top, ``start`` the commit that the run starts from.
    """

    admin: str = ""
    subfolder: str = ""
    start: str | None = None


@define
class Queued:
    """A prompt that waits for its turn; ``number`` names its file, ``title`` is its first line."""

    number: int
    title: str = ""


@define
class View:
    """A run as its journal tells it. All members are JSON values, so a view can be checkpointed."""

    state: str = "queued"
    reason: str | None = None
    seq: int = 0
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
    closing: bool = False
    parked_until: dict[str, Any] | None = None
    session: str | None = None
    agent_version: str | None = None
    site: Site = field(factory=Site)
    n: int = 0
    inputs: list[dict[str, Any]] = field(factory=list)
    told_start: bool = False
    cancel_told: bool = False
    expired: str | None = None
    stdin_closed: bool = False
    finished: bool = False
    pending: dict[str, Permission] = field(factory=dict)
    answered: dict[str, dict[str, Any]] = field(factory=dict)
    allowed: int = 0
    denied: int = 0
    denied_before: int = 0
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
    now: str | None = None
    outcome: str | None = None
    stop_reason: str | None = None
    error: dict[str, str] | None = None
    exit: dict[str, Any] | None = None
    changes: dict[str, int] | None = None
    commits: dict[str, str | None] | None = None
    failure: str | None = None

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<View {self.state}{why} attempt={self.attempt} turn={self.turn} seq={self.seq}>"

    @property
    def turn_runs(self) -> bool:
        """Whether the agent has a prompt that it has not done with."""
        return self.turn > 0 and not self.turn_over

    @property
    def final_message(self) -> str:
        """The agent's last message so far; of a long one (``message_cut``) its end."""
        return "".join(self.message)

    def apply(self, event: Event) -> None:
        """Take one line in."""
        self.seq = event["seq"]
        self.last_ms = event["ts"]
        if "n" in event:
            self.n = event["n"]
            self.first_event_ms = self.first_event_ms or event["ts"]
        if (reader := _READERS.get(event["type"])) is not None:
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


_CONVERTER = cattrs.Converter()


def _state(view: View, event: Event) -> None:
    if event["to"] == "ended":
        return  # only run.ended decides, and it is the next line
    view.state, view.reason = event["to"], event.get("reason")
    view.failure = event.get("error") or view.failure
    view.parked_until = event.get("until") if view.state == "parked" else None
    if view.state == "waiting":
        view.waiting_since_ms = event["ts"]
    elif view.waiting_since_ms is not None:
        view.waiting_ms += event["ts"] - view.waiting_since_ms
        view.waiting_since_ms = None


def _queued(view: View, event: Event) -> None:
    view.queued_ms = event["ts"]


def _started(view: View, event: Event) -> None:
    view.started_ms = view.started_ms or event["ts"]


def _attempt_started(view: View, event: Event) -> None:
    view.attempt = event["attempt"]
    view.site = Site(event["admin"], event["subfolder"], event["start"])
    view.attempt_over = view.finished = view.stdin_closed = view.turn_over = False
    view.told_start = view.cancel_told = False
    view.n, view.turn, view.turn_started = 0, 0, 0
    view.turn_ended = view.turn_recorded = view.interrupted = 0
    view.inputs, view.pending = [], {}


def _attempt_ended(view: View, event: Event) -> None:
    view.attempt_over = True
    view.exit = event.get("exit")


def _input(view: View, event: Event) -> None:
    view.inputs.append(dict(event))
    match event["kind"]:
        case "start":
            view.told_start = True
        case "prompt":
            _prompted(view, event)
        case "answer":
            _resolve(view, event)
        case "cancel":
            view.cancel_told = True
        case "finish":
            view.finished = True


def _prompted(view: View, event: Event) -> None:
    """A turn begins: what is said of a run's last turn is said of this one now."""
    view.turn, view.turn_over, view.cancel_told = event["prompt_turn"], False, False
    number = event.get("prompt", view.turn)
    found = [queued for queued in view.queue if queued.number == number]
    view.prompt = found[0] if found else Queued(number)
    view.queue = [queued for queued in view.queue if queued.number != number]
    view.message, view.message_id, view.message_open = [], None, False
    view.message_characters, view.message_from, view.message_cut = 0, 0, False
    view.denied_before = view.denied


def _prompt_queued(view: View, event: Event) -> None:
    queued = Queued(event["prompt"], event["title"])
    view.prompts = max(view.prompts, queued.number)
    if "key" in event:
        view.prompt_keys[event["key"]] = queued.number
    view.queue.insert(0 if event.get("first") else len(view.queue), queued)


def _prompt_dropped(view: View, event: Event) -> None:
    view.queue = [queued for queued in view.queue if queued.number != event["prompt"]]
    view.unsent += event["why"] == "run_ended"


def _turn_started(view: View, event: Event) -> None:
    view.turn_started = event["turn"]


def _turn_interrupted(view: View, event: Event) -> None:
    view.interrupted, view.interrupted_by = event["turn"], event["by"]


def _turn_recorded(view: View, event: Event) -> None:
    view.turn_recorded = event["turn"]
    view.changes = event["changes"]


def _closing(view: View, _event: Event) -> None:
    view.closing = True


def _turn_ended(view: View, event: Event) -> None:
    view.turn_over, view.turn_ended = True, event.get("turn", view.turn)
    view.turn_stop_reason = event["stop_reason"]
    view.turn_error = event.get("error")
    view.now = None


def _session(view: View, event: Event) -> None:
    view.session = event["session"]
    view.agent_version = event.get("agent_version") or view.agent_version


def _requested(view: View, event: Event) -> None:
    view.pending[event["request"]] = Permission(
        event["request"],
        event["tool"],
        event["question"],
        event["options"],
        event["ts"],
        event.get("deadline"),
        event.get("deadline_boottime_s"),
        event.get("deadline_boot"),
    )


def _resolve(view: View, event: Event) -> None:
    told = event["type"] == v.PERMISSION_RESOLVED
    request, option_kind = event["request"], event.get("kind" if told else "option_kind") or ""
    asked = view.pending.pop(request, None)
    if request in view.answered:
        view.answered[request]["resolved"] = True
        return
    outcome = event["outcome"]
    view.allowed += option_kind.startswith("allow")
    view.denied += option_kind.startswith("reject") or outcome in ("denied", "expired")
    known = {name: event.get(name) for name in ("option", "by", "outcome")}
    view.answered[request] = {
        **known,
        "kind": option_kind or None,
        "resolved": told,
        "asked": asked.summary() if asked else {},
    }


def _chunk(view: View, event: Event) -> None:
    view.first_response_ms = view.first_response_ms or event["ts"]
    message_id = event.get("message_id")
    if not view.message_open or (message_id and message_id != view.message_id):
        view.message, view.message_characters = [], 0
        view.message_from, view.message_cut = event["seq"], False
        view.now = None
    view.message_id, view.message_open = message_id or view.message_id, True
    view.message.append(event["text"])
    view.message_characters += len(event["text"])
    if view.message_characters > 2 * MAX_MESSAGE_CHARACTERS:
        # The end of what a program wrote says more than its beginning.
        view.message = [view.final_message[-MAX_MESSAGE_CHARACTERS:]]
        view.message_characters, view.message_cut = MAX_MESSAGE_CHARACTERS, True


def _tool(view: View, event: Event) -> None:
    view.message_open = False
    if title := event.get("title") or event.get("name"):
        view.now = str(title)[:NOW_CHARACTERS]


def _thought(view: View, _event: Event) -> None:
    view.message_open = False


def _status(view: View, event: Event) -> None:
    view.now = str(event.get("label") or event.get("phase"))[:NOW_CHARACTERS]


def _usage(view: View, event: Event) -> None:
    view.usage = dict(event["usage"])
    for name in ("cost_usd", "model", "provider", "session_counters"):
        if event.get(name) is not None:
            setattr(view, name, event[name])


def _expired(view: View, event: Event) -> None:
    if event["which"] == "wall":
        view.expired = "wall"


def _ended(view: View, event: Event) -> None:
    view.state, view.reason = "ended", None
    view.outcome, view.stop_reason = event["outcome"], event["stop_reason"]
    view.error = event.get("error")
    view.ended_ms = event["ts"]
    view.cost = event.get("cost")
    view.changes = event.get("changes")
    view.commits = event.get("commits")
    view.now = None


_READERS: dict[str, Callable[[View, Event], None]] = {
    v.RUN_STATE: _state,
    v.RUN_QUEUED: _queued,
    v.RUN_STARTED: _started,
    v.RUN_ENDED: _ended,
    v.ATTEMPT_STARTED: _attempt_started,
    v.ATTEMPT_ENDED: _attempt_ended,
    v.INPUT: _input,
    v.TURN_STARTED: _turn_started,
    v.TURN_INTERRUPTED: _turn_interrupted,
    v.TURN_RECORDED: _turn_recorded,
    v.PROMPT_QUEUED: _prompt_queued,
    v.PROMPT_DROPPED: _prompt_dropped,
    v.RUN_CLOSING: _closing,
    v.TURN_ENDED: _turn_ended,
    v.SESSION: _session,
    v.PERMISSION_REQUESTED: _requested,
    v.PERMISSION_RESOLVED: _resolve,
    v.USAGE_UPDATED: _usage,
    v.DEADLINE_EXPIRED: _expired,
    v.MESSAGE_CHUNK: _chunk,
    v.THOUGHT_CHUNK: _thought,
    v.TOOL_CALL: _tool,
    v.TOOL_UPDATE: _tool,
    v.STATUS: _status,
}
