"""The contract between the daemon and an agent's wire: inputs in, actions out.

A conversation is a pure state machine. It has no clock, no files and no
process; the daemon feeds it bytes and intents and carries out what it returns.
Given the same inputs in the same order it returns the same actions however
the bytes were chunked: after a crash its state is rebuilt by replaying them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import Factory, field, frozen

from coachman_adapters.logins import Login

# --- what a conversation returns -------------------------------------------------


@frozen
class Span:
    """Where in the attempt's raw stdout something came from, in bytes.

    ``cut``: more was said there than anybody was told.
    """

    offset: int
    size: int
    cut: bool = False


@frozen
class Event:
    """One line of the run's journal. ``members`` are JSON values; types are in `events`."""

    type: str
    members: Mapping[str, Any] = field(factory=dict)
    span: Span | None = None


@frozen
class Option:
    """One choice the agent offers. ``kind`` is one of ``events.OPTION_KINDS``.

    ``takes_message``: words that come with it reach the agent; of others they would be lost.
    """

    id: str
    kind: str
    name: str
    requires_message: bool = False
    takes_message: bool = field(default=Factory(lambda self: self.requires_message, True))


@frozen
class Ask:
    """The agent asks for permission. ``request`` is unique within the conversation."""

    request: str
    tool: Mapping[str, Any]
    question: str
    options: tuple[Option, ...]


@frozen
class Withdraw:
    """The agent takes a question back; nobody needs to answer it any more."""

    request: str


@frozen
class Write:
    """Bytes for the agent's stdin."""

    data: bytes = field(repr=lambda data: f"<{len(data)} bytes>")


@frozen
class CloseStdin:
    """Nothing more will be written: the agent is to finish."""


@frozen
class SetTimer:
    """(Re)arm a named timer; ``seconds`` None disarms it.

    The one action that may depend on how bytes arrived: timers are about silence.
    """

    name: str
    seconds: float | None


@frozen
class SessionKnown:
    """The agent named its own session (and, where it says so, its version)."""

    session: str
    agent_version: str | None = None


@frozen
class Usage:
    """Tokens of this run so far, whatever the agent's own counters mean.

    ``counters``: input (without cached), cached_input, output, reasoning, total;
    ``cost_usd`` only where the agent reported it. ``model`` and ``provider`` are what the agent
    says it used; a price is looked up by them where it told no cost. ``session_counters`` are
    the counters of an agent that counts per session, in its own terms: whoever resumes the
    session is given them back, to begin where this run ended.
    """

    counters: Mapping[str, int]
    cost_usd: float | None = None
    model: str | None = None
    provider: str | None = None
    session_counters: Mapping[str, float] | None = None


@frozen
class Reset:
    """When a provider's limit ends, as the agent tells it.

    ``at_s``: seconds of the epoch; ``in_s``: so many from now; ``local``: "HH:MM" or
    "YYYY-MM-DDTHH:MM" on this machine's clock. A conversation has none to reckon with.
    """

    at_s: float | None = None
    in_s: float | None = None
    local: str | None = None


@frozen
class TurnEnded:
    """The agent's terminal record of a turn.

    ``stop_reason`` is one of ``events.STOP_REASONS``; ``error`` ({message, code?, data?})
    accompanies ``error`` and ``limited``. There is one for each `Prompt`, in their order; an
    agent whose wire tells which prompt's end it is says so with ``turn``, and the end of another
    is ignored. ``resets``: when a limit ends, where that is told. ``transient``: it broke on the
    way, and might not the next time. `failing.failed` tells these from an error.
    """

    stop_reason: str
    error: Mapping[str, Any] | None = None
    turn: int | None = None
    resets: Reset | None = None
    transient: bool = False


Action = Event | Ask | Withdraw | Write | CloseStdin | SetTimer | SessionKnown | Usage | TurnEnded

# --- what a conversation is told -------------------------------------------------


@frozen
class Prompt:
    """The next turn's text. A conversation keeps it until the agent can take it."""

    turn: int
    text: str


@frozen
class Answer:
    """The decision on an `Ask`. ``option`` None means: cancelled, nobody chose."""

    request: str
    option: str | None
    message: str | None = None


@frozen
class Cancel:
    """End ``turn`` now; pending questions get the agent's form of "cancelled"."""

    turn: int | None = None


Intent = Prompt | Answer | Cancel


@frozen
class Ending:
    """How the process ended, once all of its stdout was received.

    ``epilogue`` is the stdout of the plan's epilogue, where one ran and succeeded.
    """

    exit_code: int | None
    signal: int | None
    stderr_tail: bytes = b""
    epilogue: bytes | None = None


class Conversation(Protocol):
    """One attempt's dialogue with one agent process."""

    def start(self) -> list[Action]: ...
    def receive(self, data: bytes) -> list[Action]: ...
    def intend(self, intent: Intent) -> list[Action]: ...
    def expire(self, timer: str) -> list[Action]: ...
    def finish(self, ending: Ending) -> list[Action]: ...
    def snapshot(self) -> dict[str, Any]: ...
    def restore(self, snapshot: Mapping[str, Any]) -> None: ...


# --- how an agent is started -----------------------------------------------------


@frozen
class Seed:
    """A file made for the agent in its private home before it starts; ``path`` is relative.

    ``defaults``: the content is a JSON object that lies under the user's own copy, if there is
    one: what that says stays.
    """

    path: str
    content: bytes = field(repr=False)
    mode: int = 0o600
    defaults: bool = False


@frozen
class UserFiles:
    """What of the user's own home is copied into the agent's private one before it starts.

    ``directory`` is relative to both homes; where the environment sets ``variable``, the user's
    is there instead. ``settings`` (configuration, instructions, rules, skills) and ``credentials``
    are paths below it, files or whole directories; what does not exist is left out. A sealed run
    gets the credentials alone, and of each file of ``endpoints`` (JSON or TOML) the members that
    say where the model is that they are for, and which. ``logins`` are those of the credentials
    whose tokens rotate.
    """

    directory: str
    variable: str | None = None
    settings: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    endpoints: Mapping[str, tuple[str, ...]] = field(factory=dict)
    logins: tuple[Login, ...] = ()


def _as_it_is(content: bytes, _cwd: str) -> bytes:
    return content


def _whole(session: str) -> str:
    return session


def _by_name(_head: bytes, _session: str) -> bool:
    return True


@frozen
class SessionFiles:
    """Where the user's own sessions lie, so that one begun by hand can be gone on with.

    ``patterns`` are globs below the user's directory of ``below``, in which "{session}" is the
    session's id. ``place(path, cwd)`` says where below it the copy belongs for an agent that works
    in ``cwd``; ``rewrite(content, cwd)`` changes what of the content names the directory.
    Where names hold a part of the id only, ``in_name(session)`` is that part, and
    ``holds(head, session)`` tells by how a file begins whether it is of the session.
    """

    below: UserFiles
    patterns: tuple[str, ...]
    place: Callable[[str, str], str]
    rewrite: Callable[[bytes, str], bytes] = _as_it_is
    in_name: Callable[[str], str] = _whole
    holds: Callable[[bytes, str], bool] = _by_name


Row = Mapping[str, Any]


@frozen
class SessionStore:
    """The same of an agent that keeps all sessions in one SQLite database, at ``database``.

    ``queries`` select the rows of one by its id (``:session``), the session's own as "session".
    ``document(rows)`` makes of them what is put at ``place``, in which "{session}" is the id: the
    agent's launch takes it in from there. KeyError and ValueError: rows of another form.
    """

    below: UserFiles
    database: str
    queries: Mapping[str, str]
    document: Callable[[Mapping[str, Sequence[Row]]], bytes]
    place: str


@frozen
class LaunchPlan:
    """What to run inside the boundary. ``argv[0]`` "{executable}" and "{python}" are filled in.

    ``epilogue`` runs in the same sandbox after the agent ended; "{session}" in it is
    the agent's session, and without one it does not run.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(factory=dict)
    seeds: tuple[Seed, ...] = ()
    epilogue: tuple[str, ...] = ()
    epilogue_limit_s: float = 20.0


@frozen
class AgentRequest:
    """What an adapter may know of a run. All paths are as seen inside the sandbox.

    ``session`` is to be taken up again, exactly; ``session_counters`` are what its last run left
    in `Usage`. ``judged``: each question is to be asked, though most are allowed, since rules may
    say otherwise. ``keep``: more prompts may follow the first turn. ``words``: somebody is there
    for what its model asks in words (false of runs that an earlier version began).
    """

    cwd: str
    home: str
    profile: str = "edit"
    permissions: str = "allow"
    judged: bool = False
    words: bool = False
    argv: tuple[str, ...] = ()
    model: str | None = None
    effort: str | None = None
    provider: str | None = None
    as_agent: str | None = None
    session: str | None = None
    session_counters: Mapping[str, float] | None = None
    keep: bool = False
    env_names: frozenset[str] = frozenset()


@frozen
class AgentSpec:
    """Facts about an agent, as data.

    ``executables``: names looked up on PATH, first found wins; ``native``: paths
    relative to the npm package that hold the real binary behind a script shim.
    ``runtime`` "python": coachman's own guest program, run by the installation's
    interpreter. ``environment``: every variable name the agent may be given;
    ``credentials``: those of them whose values are masked everywhere. ``briefed``: its prompt
    ends with what coachman tells a model about its place. ``exit_status_decides``: 0 is
    success even with neither a message nor a change; others that do nothing end ``empty``.
    ``hosts``: ``host:port`` of the APIs it must reach, whoever its provider is.
    ``honours_proxies``: it goes through the proxy that its environment names.
    ``keeps``: a session takes more prompts in one process. ``takes_agent``: the CLI has
    agents of its own (``--as``). ``pricing``: the provider id that prices are looked up by where
    the agent tells none. ``reports_cost``: the agent tells what it costs. ``sessions``: where a
    session that was begun by hand lies.
    """

    name: str
    title: str
    executables: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    runtime: str | None = None
    environment: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    takes_model: bool = True
    takes_argv: bool = False
    asks_permission: bool = True
    briefed: bool = True
    resumes: bool = False
    exit_status_decides: bool = False
    user_files: tuple[UserFiles, ...] = ()
    sessions: SessionFiles | SessionStore | None = None
    hosts: tuple[str, ...] = ()
    honours_proxies: bool = True
    keeps: bool = False
    takes_agent: bool = False
    pricing: str | None = None
    reports_cost: bool = False

    @property
    def locations(self) -> tuple[str, ...]:
        """Variables that say where the user's own files are; they never reach the agent."""
        return tuple(files.variable for files in self.user_files if files.variable)


class Adapter(Protocol):
    """An agent: what it is, how it is started, how it is talked to."""

    @property
    def spec(self) -> AgentSpec: ...
    def plan(self, request: AgentRequest) -> LaunchPlan: ...
    def converse(self, request: AgentRequest) -> Conversation: ...


Actions = Sequence[Action]
