"""The members of each type of event, for type checkers, readers and the OpenRPC document.

Every event has the members of `event_envelope.Envelope`, and beside them those of its own
type. A line of more than 256 KiB is cut and says so in ``cut``; where even that is too long, its
own members are left out. Later versions add types and members: readers pass over what they do not
know.
"""

from typing import Any, NotRequired, TypedDict

from .event_agent import (
    AgentCommands,
    AgentInput,
    AgentNoise,
    AgentNotice,
    AgentPlan,
    AgentSession,
    AgentStatus,
    AgentUnknown,
    Chunk,
    ToolCall,
    ToolCallUpdate,
)
from .event_asking import (
    PermissionPassed,
    PermissionRequested,
    PermissionResolved,
    QuestionAnswered,
    QuestionAsked,
)
from .event_envelope import By, PromptFile
from .event_network import NetworkCounted, NetworkDecided
from .records import Changes, Commits, Cost, Failure

_FromTo = TypedDict("_FromTo", {"from": str, "to": str})


class RunState(_FromTo):
    """A state followed another."""

    reason: str | None
    by: NotRequired[By]
    error: NotRequired[str]
    until: NotRequired[dict[str, Any]]
    clock: NotRequired[dict[str, Any]]


class RunQueued(TypedDict):
    """The run was accepted; ``file`` is that of its prompt."""

    policy_digest: str
    file: NotRequired[PromptFile]


class RunStarted(TypedDict):
    """The agent's process is there."""

    policy_digest: str
    agent_version: str | None
    keeper_pid: int | None


class RunRecovered(TypedDict):
    """A daemon found the run alive and goes on; ``cut_bytes`` of a torn line were dropped."""

    state: str
    resumed_after: int
    cut_bytes: int
    generation: int


class RunClosing(TypedDict):
    """The run ends once it has nothing more to do."""

    by: By


class AgentExit(TypedDict):
    """How the agent ended."""

    code: int | None
    signal: int | None


class RunEnded(TypedDict):
    """The outcome; this line decides."""

    outcome: str
    stop_reason: str | None
    error: Failure | None
    resets_at: NotRequired[int | None]
    exit: AgentExit
    usage: dict[str, int] | None
    cost: Cost | None
    changes: Changes
    commits: Commits
    tree: NotRequired[str | None]
    final_message: str
    final_message_truncated: bool


class AttemptStarted(TypedDict):
    """One life of the agent's process begins; ``start`` is the commit that it starts from.

    ``asked`` is how many questions the attempts before it asked: those of this one count on.
    """

    why: str
    admin: str
    subfolder: str
    start: str | None
    resumes: NotRequired[str]
    asked: NotRequired[int]


class AttemptEnded(TypedDict):
    """It is over; ``exit`` is its keeper's record, or says why there is none."""

    exit: dict[str, Any] | None


class TurnStarted(TypedDict):
    """The agent has a prompt: the ``prompt``th of this run."""

    prompt: NotRequired[int]
    title: NotRequired[str]
    clock: NotRequired[dict[str, Any]]


class TurnEnded(TypedDict):
    """The agent's terminal record for a prompt."""

    stop_reason: str
    error: NotRequired[Failure]
    resets_at: NotRequired[int | None]
    transient: NotRequired[bool]


class TurnInterrupted(TypedDict):
    """Somebody ends the turn before the agent does."""

    by: By


class TurnRecorded(TypedDict):
    """The tree at a turn's end was recorded, or a warning says why not."""

    changes: Changes
    commits: Commits
    tree: NotRequired[str]
    warnings: NotRequired[list[str]]


class SetupStarted(TypedDict):
    """The command that sets a new worktree up begins."""

    command: str


class CheckStarted(TypedDict):
    """The agent is through, and the run's check begins."""

    command: str


class CheckEnded(TypedDict):
    """It is over. ``output`` is the end of what it wrote, ``error`` why it came to no end."""

    exit: int | None
    signal: int | None
    duration_s: float | None
    output: str
    truncated: NotRequired[bool]
    error: NotRequired[str]


class PromptQueued(TypedDict):
    """A prompt waits for its turn; ``first``: before all others."""

    prompt: int
    title: str
    by: By
    first: NotRequired[bool]
    key: NotRequired[str]
    file: NotRequired[PromptFile]


class PromptDropped(TypedDict):
    """A prompt will not be given to the agent: ``why`` is interrupt, run_ended or damaged."""

    prompt: int
    title: str
    why: str


class FeedFailed(TypedDict):
    """The program that the run's events are fed to does not do well.

    ``after_seq`` is the last event that it read; ``then``: waits, again (it is run again) or
    given_up.
    """

    program: str
    reason: str
    after_seq: NotRequired[int]
    then: str


class UsageUpdated(TypedDict):
    """Tokens of this run so far; its cost where the agent tells one."""

    usage: dict[str, int]
    cost_usd: float | None
    model: NotRequired[str]
    provider: NotRequired[str]
    session_counters: NotRequired[dict[str, float]]


class BudgetExceeded(TypedDict):
    """The run used more than it may: ``which`` is tokens or cost_usd.

    After ``delegate.`` it is what all the runs below one of its ancestors may use together.
    """

    which: str
    limit: float
    used: float


class LimitReached(TypedDict):
    """The provider takes no more for now; ``action`` is wait or fail, ``resets_at`` is ms."""

    provider: str
    resets_at: int | None
    action: str


class DeadlineWarned(TypedDict):
    """A deadline is near: ``left_s`` are left until ``deadline``."""

    which: str
    deadline: int
    left_s: float
    request: NotRequired[str]


class HostSuspended(TypedDict):
    """The machine slept for so long, which counts neither as work nor as silence."""

    seconds: float
    clock: dict[str, Any]


class DeadlineExpired(TypedDict):
    """A deadline was reached and enforced."""

    which: str
    request: NotRequired[str]


EVENT_TYPES: dict[str, type] = {
    "run.state": RunState,
    "run.queued": RunQueued,
    "run.started": RunStarted,
    "run.recovered": RunRecovered,
    "run.closing": RunClosing,
    "run.ended": RunEnded,
    "attempt.started": AttemptStarted,
    "attempt.ended": AttemptEnded,
    "turn.started": TurnStarted,
    "turn.interrupted": TurnInterrupted,
    "turn.ended": TurnEnded,
    "turn.recorded": TurnRecorded,
    "setup.started": SetupStarted,
    "setup.ended": CheckEnded,
    "check.started": CheckStarted,
    "check.ended": CheckEnded,
    "prompt.queued": PromptQueued,
    "prompt.dropped": PromptDropped,
    "agent.input": AgentInput,
    "agent.session": AgentSession,
    "agent.message_chunk": Chunk,
    "agent.thought_chunk": Chunk,
    "user.message_chunk": Chunk,
    "tool.call": ToolCall,
    "tool.call_update": ToolCallUpdate,
    "agent.plan": AgentPlan,
    "agent.status": AgentStatus,
    "agent.commands": AgentCommands,
    "agent.notice": AgentNotice,
    "agent.noise": AgentNoise,
    "agent.unknown": AgentUnknown,
    "permission.requested": PermissionRequested,
    "permission.passed": PermissionPassed,
    "permission.resolved": PermissionResolved,
    "question.asked": QuestionAsked,
    "question.answered": QuestionAnswered,
    "usage.updated": UsageUpdated,
    "limit.reached": LimitReached,
    "budget.exceeded": BudgetExceeded,
    "deadline.warned": DeadlineWarned,
    "deadline.expired": DeadlineExpired,
    "host.suspended": HostSuspended,
    "network.decided": NetworkDecided,
    "network.counted": NetworkCounted,
    "feed.failed": FeedFailed,
    "error": Failure,
}
