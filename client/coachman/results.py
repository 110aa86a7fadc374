"""The shapes of what the daemon returns, for type checkers and readers.

Members are only ever added. Times are milliseconds since the epoch unless a
name ends in ``_s``. Nothing imports this module at run time but its readers.
"""

from typing import Any, Literal, NotRequired, TypedDict

Permissions = Literal["allow", "ask", "deny"]
WaitFor = Literal["ended", "attention", "turn"]
OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Option(TypedDict):
    """One way to answer a permission request."""

    id: str
    kind: OptionKind
    name: str
    requires_message: NotRequired[bool]


class Attention(TypedDict):
    """What a run waits for from a person."""

    kind: str
    request: str
    question: str
    tool: NotRequired[dict[str, Any] | None]
    options: list[Option]
    deadline: NotRequired[int | None]


class Changes(TypedDict):
    """How much a run changed, in files and lines."""

    files: int
    added: int
    removed: int


class Effective(TypedDict):
    """What was decided for a run, defaults included."""

    agent: str
    model: str | None
    effort: str | None
    profile: str
    permissions: Permissions
    network: str
    agent_version: NotRequired[str | None]
    executable: NotRequired[str | None]


class RunStarted(TypedDict):
    """The acknowledgement of ``run.start``."""

    run: str
    handle: str
    task: str
    state: str
    worktree: str
    evidence_dir: str
    effective: Effective
    deadlines: dict[str, int | None]
    base: str | None
    continuing: int
    uncommitted_left_out: int
    warnings: list[str]
    policy_digest: NotRequired[str]
    new: NotRequired[bool]
    dry_run: NotRequired[bool]


class RunSummary(TypedDict):
    """One row of ``run.list``."""

    run: str
    handle: str
    task: str
    agent: str
    state: str
    reason: str | None
    outcome: str | None
    stop_reason: str | None
    created_at: int
    started_at: int | None
    ended_at: int | None
    now: str | None
    tokens: int | None
    cost_usd: float | None
    changes: Changes | None
    attention: Attention | None
    labels: dict[str, str]
    title: NotRequired[str | None]
    error: NotRequired[str | None]
    repo: str | None
    dir: str | None
    profile: str
    permissions: Permissions
    network: str
    model: str | None
    effort: str | None
    last_seq: int
    last_event_at: int | None


class RunPage(TypedDict):
    """A page of summaries; ``older`` counts those that the default view leaves out."""

    runs: list[RunSummary]
    older: int
    next_cursor: NotRequired[str | None]


class RunDetails(RunSummary):
    """Everything about one run."""

    request: dict[str, Any]
    effective: Effective
    attempts: list[dict[str, Any]]
    worktree: str
    evidence_dir: str
    session: str | None
    prompt: NotRequired[str]
    result: NotRequired["RunResult | None"]


class RunResult(TypedDict, total=False):
    """How a run ended and what it left; see ``docs/cli.md`` for each member."""

    run: str
    handle: str
    task: str
    agent: str
    model: str | None
    effort: str | None
    profile: str
    session: str | None
    outcome: str
    stop_reason: str | None
    error: dict[str, Any] | None
    started_at: int | None
    ended_at: int | None
    durations: dict[str, float | None]
    turns: int
    usage: dict[str, int | None]
    cost: dict[str, Any] | None
    final_message: str
    final_message_truncated: bool
    final_path: str
    changed_files: list[dict[str, Any]]
    artifacts: list[dict[str, Any]]
    permissions_decided: dict[str, int]
    worktree: str
    evidence_dir: str
    warnings: list[str]


class WaitedRun(TypedDict):
    """One run as ``run.wait`` found it."""

    run: str
    handle: str
    task: str
    state: str
    outcome: str | None
    stop_reason: str | None
    met: str | None
    attention: Attention | None
    now: str | None
    seconds_since_event: float | None
    usage: dict[str, int | None] | None
    changes: Changes | None
    exit_code: NotRequired[int | None]
    next: list[list[str]]


class Waited(TypedDict):
    """Which condition was met, and the runs asked about."""

    met: Literal["ended", "attention", "turn", "timeout"]
    runs: list[WaitedRun]


class Diff(TypedDict):
    """One page of a patch; ``patch_b64`` replaces ``patch`` where it is not UTF-8.

    ``source`` and ``target`` are the commits that were compared.
    """

    source: NotRequired[str]
    target: NotRequired[str]
    patch: NotRequired[str | None]
    patch_b64: NotRequired[str | None]
    truncated: NotRequired[bool]
    next_offset: NotRequired[int | None]
    files: list[dict[str, Any]]


class LogLine(TypedDict):
    """A line of the transcript."""

    seq: int
    ts: int
    kind: str
    text: str


class Log(TypedDict):
    """A page of the transcript; ``next_cursor`` leads to what is before it."""

    lines: list[LogLine]
    truncated: bool
    next_cursor: int | None


class CancelledRun(TypedDict):
    """``already`` says that the run had ended, or was being cancelled, before."""

    run: str
    handle: str
    state: str
    already: bool


class Cancelled(TypedDict):
    """One entry for each run that was named."""

    runs: list[CancelledRun]


# An event is flat: ``type``, ``seq``, ``ts`` (ms), ``run``, then members of its type.
Event = dict[str, Any]


class EventPage(TypedDict):
    """Events behind a cursor; ``head`` is the newest ``seq`` of the journal."""

    events: list[Event]
    cursor: str
    ended: bool
    head: int


class Permission(TypedDict):
    """A permission request and, once it is answered, who did."""

    run: str
    handle: str
    task: str
    agent: str
    request: str
    state: Literal["pending", "resolved"]
    question: NotRequired[str]
    tool: NotRequired[dict[str, Any] | None]
    options: NotRequired[list[Option]]
    requested_at: NotRequired[int]
    deadline: NotRequired[int | None]
    resolved: NotRequired[dict[str, Any] | None]


class PermissionPage(TypedDict):
    """The requests that were asked for."""

    permissions: list[Permission]


class Answered(TypedDict):
    """The option that now stands."""

    request: str
    run: str
    option: str | None
    kind: str


class Agent(TypedDict):
    """An agent that this version knows, installed or not."""

    name: str
    title: str
    installed: bool
    path: str | None
    version: str | None
    environment: list[str]
    credentials: list[str]
    locations: NotRequired[list[str]]
    efforts: list[str]
    resumes: bool
    keeps: bool
    takes_agent: bool
    takes_model: bool
    note: NotRequired[str | None]


class AgentPage(TypedDict):
    """Agents by name."""

    agents: list[Agent]


class ProfilePage(TypedDict):
    """Profiles by name, each with its eight facts."""

    profiles: list[dict[str, Any]]


class ProfileExplained(TypedDict):
    """What a profile means, in facts and in the compiled policy."""

    profile: str
    facts: dict[str, str]
    policy: dict[str, Any]


class TaskPage(TypedDict):
    """Tasks of one repository, or of all."""

    tasks: list[dict[str, Any]]


class DaemonStatus(TypedDict):
    """The daemon, its load, and whether it may start runs."""

    version: str
    build: str
    instance: str
    pid: int
    uptime_s: float
    started_at: int
    socket: str
    state_dir: str
    runs: dict[str, int]
    capacity: dict[str, int]
    storage: dict[str, Any]
    boundary: dict[str, Any]


class DaemonHello(TypedDict):
    """Who answers, and the limits it keeps."""

    api: int
    server: dict[str, str]
    features: list[str]
    limits: dict[str, int]
    instance: str
    uid: int


class DaemonLeaving(TypedDict):
    """``going_on`` lists the handles of the runs that outlive the daemon."""

    mode: str
    going_on: list[str]
