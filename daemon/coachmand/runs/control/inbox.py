"""What reaches a run: one inbox carries updates, answers, timers and the end alike."""

from typing import Any

import trio
from attrs import define, field, frozen


@define
class Reply:
    """Where the sender of a message waits for what came of it."""

    _done: trio.Event = field(factory=trio.Event)
    _value: Any = None
    _error: Exception | None = None

    def give(self, value: Any) -> None:
        """Answer with a value."""
        self._value = value
        self._done.set()

    def refuse(self, error: Exception) -> None:
        """Answer with an error, raised where the sender waits."""
        self._error = error
        self._done.set()

    async def wait(self) -> Any:
        """The answer, or its error raised."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value


@frozen
class Admitted:
    """A slot is ours."""


@frozen
class Prepared:
    """Worktree, home and policy are in place; a keeper waits for its record."""

    launch: Any
    starting: Any


@frozen
class Failed:
    """Preparation, launch or epilogue failed: "cannot X: Y"."""

    message: str


@frozen
class OutputGrew:
    """The agent said more."""


@frozen
class NetworkDecided:
    """The run's gate wrote down something new."""


@frozen
class Exited:
    """The process tree of an attempt's agent is gone; ``exit`` is the keeper's record."""

    attempt: int
    exit: dict[str, Any]


@frozen
class KeeperGone:
    """The connection to the keeper ended."""


@frozen
class EpilogueDone:
    """The epilogue is over; its output is on disk unless ``error`` says what went wrong."""

    error: str | None


@frozen
class CheckDone:
    """The run's check is over; ``record`` is what its event tells."""

    record: dict[str, Any]


@frozen
class SettingUp:
    """The run's worktree is being set up, or has been: what is to be on record of that."""

    told: Any


@frozen
class LivesOn:
    """A process of the run could not be ended."""

    path: Any
    error: Any


@frozen
class Concluded:
    """The work product is recorded and what is left of the run is ready to be written."""

    product: Any


@frozen
class Asked:
    """Somebody wants something, and waits for the reply."""

    by: dict[str, Any]
    reply: Reply


@frozen
class Answered(Asked):
    """Somebody answers a permission request."""

    request: str
    option: str | None
    kind: str | None
    message: str | None


@frozen
class Passed:
    """A handler was asked and left the question to the others, for ``reason``."""

    request: str
    by: dict[str, Any]
    reason: str


@frozen
class FeedFailed:
    """The program that its events are fed to does not do well, and what follows from that."""

    program: str
    reason: str
    after_seq: int | None
    then: str


@frozen
class LoginRenewed:
    """A login that the run has is another by now: ``secrets`` are what is to be masked of it."""

    secrets: tuple[str, ...] = field(repr=False)


@frozen
class LoginTold:
    """Something is the matter with a login that the run has, in words."""

    message: str


@frozen
class CancelAsked(Asked):
    """Somebody wants the run to end now."""


@frozen
class PromptAsked(Asked):
    """Somebody has another prompt for the run; with the ``key`` of one before, it is that one."""

    prompt: str
    key: str | None


@frozen
class InterruptAsked(Asked):
    """Somebody wants the turn to end now (``turn``: this one or none), then ``prompt``."""

    prompt: str | None
    keep_queue: bool
    turn: int | None
    key: str | None = None


@frozen
class CloseAsked(Asked):
    """Somebody wants the run to end once it has nothing more to do."""


@frozen
class Lent(Asked):
    """Somebody's shell lends values of variables to the run."""

    env: dict[str, str] = field(repr=False)


@frozen
class QuestionAsked(Asked):
    """The run asks its parent, or whoever watches; with the ``key`` of a question, for its answer.

    ``timeout_s`` None is as long as its permissions wait.
    """

    question: str
    options: tuple[str, ...]
    timeout_s: float | None
    key: str | None


@frozen
class QuestionAnswered(Asked):
    """Somebody answers what the run asks, in words."""

    request: str
    answer: str


@frozen
class CheckpointAsked:
    """The daemon is about to restart: what was said so far need not be replayed by the next."""

    reply: Reply


@frozen
class Priced:
    """What the tokens that were used cost, as far as anybody knows."""

    usd: float | None


@frozen
class FamilyChanged:
    """Runs below this one, or beside it, used more: what follows is seen by looking."""


@frozen
class DiskTaken:
    """The run's directories grew by more than they may, both in bytes."""

    grown: int
    limit: int


@frozen
class Slept:
    """The machine was suspended and is awake again."""


@frozen
class StorageChanged:
    """The disk is full, or has room again."""


@frozen
class StorageRefused:
    """The keeper cannot store what the agent says, and room would not help."""

    message: str


@frozen
class TurnRecorded:
    """The tree as a turn left it is a commit."""

    turn: int
    product: Any


Message = (
    Admitted
    | Prepared
    | SettingUp
    | Failed
    | OutputGrew
    | Exited
    | NetworkDecided
    | KeeperGone
    | EpilogueDone
    | CheckDone
    | Concluded
    | LivesOn
    | TurnRecorded
    | Slept
    | FamilyChanged
    | Priced
    | DiskTaken
    | Passed
    | FeedFailed
    | LoginRenewed
    | LoginTold
    | CheckpointAsked
    | StorageChanged
    | StorageRefused
    | Asked
)
