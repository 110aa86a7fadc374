"""What each line of a journal means: the one place that reads meaning from them, into a view."""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ...journal import vocabulary as v
from ..facts import again
from ..facts.clock import Moment, Stopwatch
from ..facts.deadlines import RUNS_IN, WORKING
from ..facts.members import MAX_REMEMBERED, NOW_CHARACTERS, Queued, Site
from . import decisions, folding_asked, folding_said

if TYPE_CHECKING:
    from .view import View

Event = Mapping[str, Any]


def _state(view: "View", event: Event) -> None:
    if event["to"] == "ended":
        return  # only run.ended decides, and it is the next line
    view.state, view.reason = event["to"], event.get("reason")
    view.failure = event.get("error") or view.failure
    view.parked_until = event.get("until") if view.state == "parked" else None
    lacks = view.state == "waiting" and view.reason == "credentials"
    view.credentials = dict(event["until"]) if lacks else None
    if not lacks:
        _forget_warning(view, "credentials")
    _go_on(view, event)
    _clock(view, event)
    if view.state == "waiting":
        view.waiting_since_ms = event["ts"]
    elif view.waiting_since_ms is not None:
        view.waiting_ms += event["ts"] - view.waiting_since_ms
        view.waiting_since_ms = None


def _go_on(view: "View", event: Event) -> None:
    """The turn that failed is not the run's last: another attempt is to come."""
    if view.state in ("stopping", "checking"):
        view.again = None
    elif view.state == "waiting" and view.reason in again.REASONS:
        is_new, told = event.get("from") != "waiting", event["until"]["told"]
        view.again, view.considered = {**event["until"], "reason": view.reason}, view.turn
        # A run that lacked credentials meanwhile goes on waiting for the same.
        view.waits += is_new and bool(told)
        view.tries += is_new and not told


def _clock(view: "View", event: Event) -> None:
    """What runs in the state that was just entered, and what does not."""
    at = Moment.of_event(event)
    if at is None:
        return
    view.asleep = dict(event["clock"])
    (view.working.run if view.state in WORKING else view.working.pause)(at)
    runs = view.state in RUNS_IN["turn"] and view.turn_runs
    (view.in_turn.run if runs else view.in_turn.pause)(at)
    if view.state != "parked":
        _forget_warning(view, "parked")


def _slept(view: "View", event: Event) -> None:
    view.asleep = dict(event["clock"])
    view.working.skip(event["seconds"])
    view.in_turn.skip(event["seconds"])


def _warned(view: "View", event: Event) -> None:
    view.warned.append(" ".join([event["which"], event.get("request", "")]).strip())
    if event["which"] == "stall":
        view.stalls_at = event["deadline"]


def _forget_warning(view: "View", which: str) -> None:
    if which in view.warned:
        view.warned.remove(which)


def _queued(view: "View", event: Event) -> None:
    view.queued_ms = event["ts"]
    view.queue = [Queued(1, file=event.get("file"))]


def _started(view: "View", event: Event) -> None:
    view.started_ms = view.started_ms or event["ts"]


def _attempt_started(view: "View", event: Event) -> None:
    view.attempt = event["attempt"]
    view.site = Site(event["admin"], event["subfolder"], event["start"])
    view.attempt_over = view.finished = view.stdin_closed = view.turn_over = False
    view.told_start = view.cancel_told = False
    view.n, view.turn_base = 0, view.turn
    view.turn_started = view.turn_recorded = view.turn
    view.inputs, view.pending, view.first_session = [], {}, None
    # An attempt that an earlier version began counts its questions from one.
    view.asked_before = event.get("asked", 0)
    view.again, view.resumes = None, event.get("resumes")
    # A conversation counts from its own beginning.
    view.resumed_counters = view.session_counters
    view.usage_before, view.cost_before = view.usage, view.cost_usd


def _attempt_ended(view: "View", event: Event) -> None:
    view.attempt_over, view.questions = True, {}
    view.exit = event.get("exit")


def _input(view: "View", event: Event) -> None:
    view.inputs.append(dict(event))
    match event["kind"]:
        case "start":
            view.told_start = True
        case "prompt":
            _prompted(view, event)
        case "answer":
            folding_asked.resolve(view, event)
        case "cancel":
            view.cancel_told = True
        case "finish":
            view.finished = True
            view.unread = event.get("epilogue_error") or view.unread


def _prompted(view: "View", event: Event) -> None:
    """A turn begins: what is said of a run's last turn is said of this one now."""
    view.turn, view.turn_over, view.cancel_told = event["prompt_turn"], False, False
    number = event.get("prompt", view.turn)
    found = [queued for queued in view.queue if queued.number == number]
    view.prompt = found[0] if found else Queued(number)
    view.queue = [queued for queued in view.queue if queued.number != number]
    view.message, view.message_id, view.message_open = [], None, False
    view.message_characters, view.message_from, view.message_cut = 0, 0, False
    view.denied_before, view.spoke, view.used_tools = view.denied, False, False


def _prompt_queued(view: "View", event: Event) -> None:
    queued = Queued(event["prompt"], event["title"], event.get("file"))
    view.prompts = max(view.prompts, queued.number)
    if "key" in event:
        view.prompt_keys[event["key"]] = queued.number
    view.queue.insert(0 if event.get("first") else len(view.queue), queued)


def _prompt_dropped(view: "View", event: Event) -> None:
    view.queue = [queued for queued in view.queue if queued.number != event["prompt"]]
    view.unsent += event["why"] == "run_ended"
    view.damaged += event["why"] == "damaged"


def _turn_started(view: "View", event: Event) -> None:
    view.turn_started = event["turn"]
    view.in_turn = Stopwatch()
    if (at := Moment.of_event(event)) is not None:
        view.in_turn.run(at)
    _forget_warning(view, "turn")


def _turn_interrupted(view: "View", event: Event) -> None:
    view.interrupted, view.interrupted_by = event["turn"], event["by"]


def _turn_recorded(view: "View", event: Event) -> None:
    view.turn_recorded = event["turn"]
    view.changes = event["changes"]
    tree = event.get("tree")
    view.recorded = {**event["commits"], "warnings": event.get("warnings", []), "tree": tree}
    if view.again is not None and view.used_tools and tree is not None:
        left = f"{tree} {sha256(view.final_message.encode('utf-8', 'replace')).hexdigest()}"
        view.times_same = again.times_same(view.left, left, view.times_same)
        view.left = left


def _check_started(view: "View", event: Event) -> None:
    view.check = {"command": event["command"]}
    view.now = f"check: {event['command']}"[:NOW_CHARACTERS]


def _check_ended(view: "View", event: Event) -> None:
    names = ("exit", "signal", "duration_s", "output", "truncated", "error")
    view.check = {**(view.check or {}), **{n: event[n] for n in names if n in event}}
    view.now = None


def _network_decided(view: "View", event: Event) -> None:
    view.noted.append(decisions.key_of(event))


def _closing(view: "View", _event: Event) -> None:
    view.closing = True


def _turn_ended(view: "View", event: Event) -> None:
    view.turn_over, view.turn_ended = True, event.get("turn", view.turn)
    view.turn_stop_reason = event["stop_reason"]
    view.turn_error = event.get("error")
    view.turn_transient = event.get("transient", False)
    view.resets_at = event.get("resets_at")
    if view.turn_stop_reason not in ("limited", "error"):
        view.tries = view.waits = 0
    if len(view.left_tools) < MAX_REMEMBERED:
        view.left_tools |= view.open_tools
    view.in_turn, view.open_tools = Stopwatch(), set()
    view.now = None


def _exceeded(view: "View", event: Event) -> None:
    view.exceeded = {name: event[name] for name in ("which", "limit", "used")}


def _faulted(view: "View", event: Event) -> None:
    if len(view.faults) < MAX_REMEMBERED:
        view.faults.append(event["message"])


def _feed_failed(view: "View", event: Event) -> None:
    if event["then"] == "given_up" and len(view.faults) < MAX_REMEMBERED:
        after = f" (after event {event['after_seq']})" if "after_seq" in event else ""
        text = f"its events are not fed to {event['program']} any more{after}: {event['reason']}"
        view.faults.append(text)


def _limit_reached(view: "View", event: Event) -> None:
    view.considered = event["turn"]


def _ended(view: "View", event: Event) -> None:
    view.state, view.reason = "ended", None
    view.outcome, view.stop_reason = event["outcome"], event["stop_reason"]
    view.error = event.get("error")
    view.ended_ms = event["ts"]
    view.cost = event.get("cost")
    view.changes = event.get("changes")
    view.commits, view.tree = event.get("commits"), event.get("tree")
    view.now, view.questions = None, {}


READERS: dict[str, Callable[["View", Event], None]] = {
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
    v.CHECK_STARTED: _check_started,
    v.CHECK_ENDED: _check_ended,
    v.RUN_CLOSING: _closing,
    v.TURN_ENDED: _turn_ended,
    v.LIMIT_REACHED: _limit_reached,
    v.BUDGET_EXCEEDED: _exceeded,
    v.DEADLINE_WARNED: _warned,
    v.NETWORK_DECIDED: _network_decided,
    v.ERROR: _faulted,
    v.FEED_FAILED: _feed_failed,
    v.HOST_SUSPENDED: _slept,
    **folding_said.READERS,
    **folding_asked.READERS,
}
