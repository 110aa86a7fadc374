"""The records that results and events are made of; `coachman.results` says how they are read."""

from typing import Any, Literal, NotRequired, TypedDict

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Option(TypedDict):
    """One way to answer a permission request, or of kind answer a question in words."""

    id: str
    kind: OptionKind | Literal["answer"]
    name: str
    requires_message: NotRequired[bool]
    takes_message: NotRequired[bool]


class Attention(TypedDict):
    """What a run needs from a person.

    ``kind`` permission has a ``request`` to be answered, the ``tool`` call that it is about and
    ``options``; question has a ``request``, and ``options`` where the run named any: it is asked
    and answered in words (``run.answer``). storage is a full disk, stall an agent that was silent
    for so long that it is about to be ended, which happens at ``deadline``. credentials are
    variables that the run's shell has to lend again (``run.lend``), since the daemon was restarted
    before a process had them.
    """

    kind: str
    request: str | None
    question: str
    tool: dict[str, Any] | None
    options: list[Option]
    deadline: int | None


class WaitingPrompt(TypedDict):
    """A prompt that waits for its turn, or did until it was dropped; ``title``: its first line."""

    prompt: int
    title: str


class Changes(TypedDict):
    """How much a run changed, in files and lines."""

    files: int
    added: int
    removed: int


class Failure(TypedDict):
    """What went wrong, in words; agents may add a code and data of their own."""

    message: str
    code: NotRequired[Any]
    data: NotRequired[Any]


# The ends of what a run did: members that Python reserves.
Commits = TypedDict("Commits", {"from": str | None, "to": str | None})
Commits.__doc__ = "The commits before and after a run; null where there is none."


class Exit(TypedDict):
    """How the agent's process ended; null where that is not known."""

    exit_code: int | None
    signal: int | None
    ended_by: str | None


class Check(TypedDict):
    """What came of a run's check. ``exit`` is null where it came to no end of its own."""

    command: str
    exit: NotRequired[int | None]
    signal: NotRequired[int | None]
    duration_s: NotRequired[float | None]
    output: NotRequired[str]
    truncated: NotRequired[bool]
    error: NotRequired[str]


class Cost(TypedDict):
    """What a run cost. ``source``: reported by the agent, or calculated at ``price_version``."""

    usd: float
    source: str
    price_version: str | None
    billing: str


class Executable(TypedDict):
    """The agent's program on the host."""

    path: str
    sha256: str | None
    version: str | None


class FileChange(TypedDict):
    """A changed path; ``status`` is A, M, D or T (its type changed)."""

    path: str
    status: str
    added: int
    removed: int
    binary: bool


class Input(TypedDict):
    """A file or directory that a run was handed; ``path`` is None for what came as bytes."""

    name: str
    kind: str
    size: int
    sha256: str
    path: str | None


class Artifact(TypedDict):
    """A file that the agent put in ``/output``; one too large to be read has no digest.

    ``partial``: its run did not succeed, so that it may not be whole.
    """

    path: str
    size: int
    sha256: str | None
    partial: NotRequired[bool]


class Passed(TypedDict):
    """Who left a question to the others, and why."""

    by: dict[str, Any]
    reason: str


class Resolution(TypedDict):
    """How a request was settled and by whom; ``resolved``: everybody was told."""

    option: str | None
    kind: str | None
    outcome: str
    by: dict[str, Any] | None
    resolved: bool


class Capacity(TypedDict):
    """Runs that may be active at once, that are, and that wait for a place."""

    max_active: int
    active: int
    queued: int


class ProviderLimit(TypedDict):
    """An agent's provider that takes no more ``until`` then; ``queued`` runs wait for it."""

    agent: str
    provider: str
    until: int
    queued: int


class StorageStatus(TypedDict):
    """``state`` is ok, full or degraded; other than ok, no run is started and ``reason`` says why.

    Full, runs are held until there is room. No run is started with less than ``floor_bytes`` free.
    """

    state: str
    free_bytes: int
    floor_bytes: int
    reason: str | None


class Bytes(TypedDict):
    """What a run took on disk when it ended: all of its directory, and of that the raw logs."""

    all: int
    logs: int


class GoneSince(TypedDict):
    """Since when a run's raw logs, and its task's worktree with the agents' homes, are gone."""

    logs_at: int | None
    worktree_at: int | None


class Resumable(TypedDict):
    """Whether ``run.resume`` could go on in a run's session; where not, why."""

    ok: bool
    why: str | None


class Finding(TypedDict):
    """Something that is not as it should be, and what to do.

    What belongs to no record is a keeper, process, worktree, home or run; a program or a file of
    the user's that cannot be used is on_event, notify or handler.
    """

    kind: str
    path: str
    why: str
    remedy: str


class Probed(TypedDict):
    """Whether the kernel gives what some runs need; where not, why and what to do."""

    ok: bool
    cause: str | None
    remedy: str | None


class BoundaryStatus(TypedDict):
    """Whether sandboxes can be built here; where not, why and what to do.

    ``needs`` tells it for each kind of run: ``processes`` is what profile host needs, ``walls``
    an isolated run with the host's network, ``network`` one with a network of its own; ``ok``
    is the last.
    """

    ok: bool
    bwrap: dict[str, str] | None
    cause: str | None
    remedy: str | None
    needs: NotRequired[dict[str, Probed]]


class ServerInfo(TypedDict):
    """The daemon's program."""

    name: str
    version: str
    build: str
