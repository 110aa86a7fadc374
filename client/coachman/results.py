"""The shapes of what the daemon returns: for type checkers, readers and the OpenRPC document.

The daemon describes its methods with these classes and its handlers are checked
against them, so a member stands here or nowhere. Members are only ever added.
Times are milliseconds since the epoch unless a name ends in ``_s``. Commands do
not import this module at run time.
"""

from typing import Any, Literal, NotRequired, Required, TypedDict

from . import compiled, daemon_results, kept_results, steered
from .records import (
    Artifact,
    Attention,
    Bytes,
    Changes,
    Check,
    Commits,
    Cost,
    Executable,
    Exit,
    Failure,
    FileChange,
    GoneSince,
    Input,
    Option,
    Passed,
    Resolution,
    Resumable,
    WaitingPrompt,
)

Permissions = Literal["allow", "ask", "deny"]
OnLimit = Literal["wait", "fail"]
WaitFor = Literal["ended", "attention", "turn"]

Diagnosis = daemon_results.Diagnosis
DaemonHello = daemon_results.DaemonHello
DaemonLeaving = daemon_results.DaemonLeaving
DaemonRestarting = daemon_results.DaemonRestarting
DaemonStatus = daemon_results.DaemonStatus
Examination = daemon_results.Examination
LastEnd = daemon_results.LastEnd
Task = kept_results.Task
TaskPage = kept_results.TaskPage
CleanedRun = kept_results.CleanedRun
CleanedTask = kept_results.CleanedTask
Cleanup = kept_results.Cleanup
UnreadableRun = kept_results.UnreadableRun
Reindexed = kept_results.Reindexed
Compiled = compiled.Compiled
RunPolicy = compiled.RunPolicy
Asked = steered.Asked
Cancelled = steered.Cancelled
CancelledRun = steered.CancelledRun
Closed = steered.Closed
Interrupted = steered.Interrupted
LeaseClaimed = steered.LeaseClaimed
LeaseReleased = steered.LeaseReleased
Lent = steered.Lent
Prompted = steered.Prompted
Question = steered.Question
QuestionAnswered = steered.QuestionAnswered
Reply = steered.Reply
Waited = steered.Waited
WaitedRun = steered.WaitedRun


class Effective(TypedDict):
    """What was decided for a run, defaults included.

    ``hosts`` are its agent's own destinations, where its network has them; ``inherits`` is the
    built-in profile that one of the user's own is made of; ``native``: on the host, without a
    namespace that its processes end with.
    """

    agent: str
    model: str | None
    effort: str | None
    profile: str
    inherits: NotRequired[str | None]
    native: NotRequired[bool]
    permissions: Permissions
    network: str
    hosts: NotRequired[list[str]]
    agent_version: str | None
    executable: str | None


class RunStarted(TypedDict):
    """A run that was accepted; ``new`` is false where its request key had started it before.

    ``compiled`` comes with a dry run alone.
    """

    run: str
    handle: str
    task: str
    state: str
    worktree: str
    evidence_dir: str
    effective: Effective
    deadlines: dict[str, int]
    base: str
    continuing: int
    uncommitted_left_out: int
    warnings: list[str]
    policy_digest: str
    new: bool
    dry_run: bool
    keep: bool
    resumed_from: str | None
    compiled: NotRequired[Compiled]


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
    resumes_at: NotRequired[int | None]
    held_until: NotRequired[int | None]
    keep: NotRequired[bool]
    turn: NotRequired[int]
    turn_stop_reason: NotRequired[str | None]
    queued_prompts: NotRequired[int]
    labels: dict[str, str]
    title: str
    error: Failure | None
    repo: str
    parent: NotRequired[str | None]
    ancestors: NotRequired[list[str]]
    dir: str
    profile: str
    permissions: Permissions
    network: str
    model: str | None
    effort: str | None
    last_seq: int
    first_g: NotRequired[int]
    last_g: NotRequired[int]
    last_event_at: int
    bytes: NotRequired[int]
    log_bytes: NotRequired[int]
    cleaned: NotRequired[bool]


class RunPage(TypedDict):
    """A page of summaries, what needs someone first, then the newest.

    ``older`` counts the runs that ended more than 12 h ago, where that is why they are out.
    """

    runs: list[RunSummary]
    older: int
    next_cursor: str | None


class RunResult(TypedDict, total=False):
    """How a run ended and what it left, in this ``format`` of the record.

    ``tree`` is git's hash of the tree as the run left it, ``message_sha256`` the digest of the
    whole final message: what two runs have in both, the later one came no further.
    ``network_decided`` counts the hosts that were denied, and the places that were ``unreachable``.
    A record of an earlier version may lack members.
    """

    format: int
    run: Required[str]
    handle: Required[str]
    task: Required[str]
    agent: Required[str]
    agent_version: str | None
    executable: Executable | None
    model: str | None
    effort: str | None
    profile: str
    permissions: Permissions
    network: str
    session: str | None
    session_counters: dict[str, float] | None
    parent: str | None
    resumed_from: str | None
    outcome: Required[str]
    stop_reason: Required[str | None]
    error: Failure | None
    resets_at: int | None
    exit: Exit | None
    started_at: int | None
    ended_at: int | None
    durations: dict[str, float | None]
    turns: int
    attempts: int
    usage: dict[str, int] | None
    cost: Cost | None
    final_message: str
    final_message_truncated: bool
    message_sha256: str
    final_path: str
    changed_files: list[FileChange]
    changes: Changes
    commits: Commits
    tree: str | None
    artifacts: list[Artifact]
    inputs: list[Input]
    check: Check | None
    permissions_decided: dict[str, int]
    network_decided: dict[str, int]
    environment: dict[str, str]
    worktree: str
    evidence_dir: str
    base: str
    policy_digest: str
    warnings: list[str]
    bytes: Bytes
    cleaned: GoneSince
    resumable: Resumable
    summary: RunSummary


class RunDetails(RunSummary):
    """Everything about one run.

    ``request`` is what was recorded before it began, ``prompt`` the beginning of its text.
    """

    request: dict[str, Any]
    attempts: int
    worktree: str
    evidence_dir: str
    session: str | None
    resumed_from: str | None
    queue: list[WaitingPrompt]
    prompt: str
    deadlines: dict[str, int]
    usage: dict[str, int] | None
    result: RunResult | None
    resumable: Resumable | None


class Diff(TypedDict):
    """One page of a patch; ``patch_b64`` replaces ``patch`` where it is not UTF-8.

    ``source`` and ``target`` are the commits that were compared.
    """

    source: str
    target: str
    files: list[FileChange]
    patch: str | None
    patch_b64: str | None
    truncated: bool
    next_offset: int | None


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


class Event(dict[str, Any]):
    """One line of a journal, flat: ``type``, ``seq``, ``ts``, ``run``, then members of its type.

    `coachman.event_types` names these by type. Decoded events are plain dictionaries.
    """


class EventPage(TypedDict):
    """Events behind a cursor; ``ended``: there will be none beyond ``head``, the newest seq."""

    events: list[Event]
    cursor: str
    ended: bool
    head: int


class Subscribed(TypedDict):
    """Events follow as ``event.event`` notifications; ``event.end`` closes them."""

    subscription: str
    cursor: str


class Unsubscribed(TypedDict):
    """``ended`` is false where there was none of that name (any more)."""

    ended: bool


class Permission(TypedDict):
    """A permission request and, once it is answered, who did; ``passed``: who was asked before."""

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
    passed: NotRequired[list[Passed]]
    resolved: Resolution | None


class PermissionPage(TypedDict):
    """What was asked for: requests of agents' own, and ``questions`` of runs in words."""

    permissions: list[Permission]
    questions: list[Question]


class Answered(TypedDict):
    """The option that now stands."""

    request: str
    run: str
    option: str
    kind: str


class Agent(TypedDict):
    """An agent that this version knows, installed or not; ``note`` says why not.

    ``environment`` and ``credentials`` are the names of variables that it wants of its caller;
    ``profile_environment`` has those that a profile lets in besides.
    """

    name: str
    adapter: str
    title: str
    environment: list[str]
    locations: NotRequired[list[str]]
    credentials: list[str]
    efforts: list[str]
    resumes: bool
    keeps: bool
    takes_agent: bool
    takes_model: bool
    takes_argv: bool
    installed: bool
    path: str | None
    version: str | None
    sha256: str | None
    note: str | None
    profile_environment: NotRequired[list[str]]


class AgentPage(TypedDict):
    """Agents by name."""

    agents: list[Agent]


class Profile(TypedDict):
    """A profile in eight facts.

    One of the configuration ``inherits`` another; ``trusted``: it may give more than that one.
    """

    name: str
    facts: dict[str, str]
    inherits: NotRequired[str | None]
    trusted: NotRequired[bool]


class ProfilePage(TypedDict):
    """Profiles by name."""

    profiles: list[Profile]


class ProfileExplained(TypedDict):
    """A profile in facts, and its compiled policy: mounts, names of variables, arguments."""

    profile: str
    facts: dict[str, str]
    policy: dict[str, Any]


class Nothing(TypedDict):
    """An empty result."""
