"""The shapes of what waiting for runs and steering them comes to. Members are only ever added."""

from typing import Any, Literal, NotRequired, TypedDict

from .records import Attention, Changes, Failure, WaitingPrompt


class WaitedRun(TypedDict):
    """One run as ``run.wait`` found it; ``exit_code`` is there once it has ended.

    ``turn`` is the last that it began, ``turn_stop_reason`` how that ended, if it has.
    """

    run: str
    handle: str
    task: str | None
    state: str
    outcome: str | None
    stop_reason: str | None
    error: Failure | None
    met: str | None
    attention: Attention | None
    now: str | None
    seconds_since_event: float | None
    usage: dict[str, int] | None
    changes: Changes | None
    exit_code: NotRequired[int]
    turn: NotRequired[int]
    turn_stop_reason: NotRequired[str | None]
    next: list[list[str]]


class Waited(TypedDict):
    """Which condition was met, and the runs asked about."""

    met: Literal["ended", "attention", "turn", "idle", "timeout"]
    runs: list[WaitedRun]


class Lent(TypedDict):
    """The ``names`` that a run lacked and has again, and the state that it goes on in."""

    run: str
    handle: str
    state: str
    names: list[str]


class CancelledRun(TypedDict):
    """``already`` says that the run had ended, or was being cancelled, before."""

    run: str
    handle: str
    state: str
    already: bool


class Cancelled(TypedDict):
    """One entry for each run that was named."""

    runs: list[CancelledRun]


class Prompted(TypedDict):
    """A prompt that is on disk.

    ``turn`` is the one that it will be unless somebody interrupts, and None where a prompt that
    is sent again has had its turn. ``ahead`` counts the turns before it, ``waits_for`` is "turn",
    "place" (too many runs are active) or None. ``resumed`` says that the run had ended: ``run``
    is a new one, on its session. ``new`` is false where its request key had given it before.
    """

    run: str
    handle: str
    state: str
    prompt: int
    turn: int | None
    ahead: int
    waits_for: Literal["turn", "place"] | None
    resumed: bool
    new: bool


class Interrupted(TypedDict):
    """``turn`` is told to end, None where none runs; ``prompt`` is the number of the next one."""

    run: str
    handle: str
    state: str
    turn: int | None
    already: bool
    prompt: int | None
    dropped: list[WaitingPrompt]


class LeaseClaimed(TypedDict):
    """The run is this connection's until ``expires_at`` (ms); ``new`` is false where it was."""

    run: str
    handle: str
    expires_at: int
    new: bool


class LeaseReleased(TypedDict):
    """``released`` is false where this connection had no lease of the run."""

    run: str
    handle: str
    released: bool


class Closed(TypedDict):
    """One entry for each run that was named; ``already``: there was nothing to do."""

    runs: list[CancelledRun]


class Reply(TypedDict):
    """What came of a question: ``answer`` is null where there was none."""

    outcome: Literal["answered", "expired", "withdrawn"]
    answer: str | None
    by: dict[str, Any]


class Question(TypedDict):
    """What a run asks its parent, or whoever watches, and what came of it once it is settled."""

    run: str
    handle: str
    task: str
    agent: str
    request: str
    state: Literal["pending", "resolved"]
    question: str
    options: list[str]
    asked_at: int
    deadline: int
    resolved: Reply | None


class Asked(TypedDict):
    """What came of a run's own question; where nobody answered, ``answer`` is null."""

    run: str
    request: str
    outcome: Literal["answered", "expired", "withdrawn"]
    answer: str | None
    by: dict[str, Any]


class QuestionAnswered(TypedDict):
    """The question that the answer went to."""

    run: str
    handle: str
    request: str
