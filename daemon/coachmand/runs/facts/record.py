"""A run's record: what was asked and what was decided before anything had an effect."""

from collections.abc import Mapping
from typing import Any

import cattrs
from attrs import field, frozen

from coachman.results import OnLimit, Permissions
from coachman_sandbox.custom import Custom, made_of
from coachman_sandbox.network import Network, resolve
from coachman_sandbox.profiles import PROFILES, Profile

from ...evidence.ids import handle_of
from ...journal.order import Source
from ...permissions import hook
from ...permissions.handlers import Handler
from ...permissions.rules import Rule
from .clock import Moment
from .deadlines import CHECK_DEFAULT_S, PARKED_DEFAULT_S
from .grants import Delegate, Limits

# A request may name any of its members later; these names never carry a secret.
_CONVERTER = cattrs.Converter()


@frozen
class Repository:
    """The repository a run works on, as it was when the run was accepted."""

    key: str
    common_dir: str
    toplevel: str
    prefix: str
    base: str
    uncommitted: int = 0

    @property
    def is_there(self) -> bool:
        """Whether there is one: a sealed run has none, and all of it is empty but the key."""
        return bool(self.common_dir)

    @property
    def roots(self) -> tuple[str, ...]:
        """The directories that agents may write, or their commits lead to."""
        return (self.toplevel, self.common_dir) if self.is_there else ()


NO_REPOSITORY = Repository("none", "", "", "", "")


@frozen
class Executable:
    """The agent's program on the host."""

    path: str
    sha256: str | None = None
    version: str | None = None


@frozen
class Input:
    """What a run was handed, as it was then; ``path`` is where it came from, None for bytes."""

    name: str
    kind: str
    size: int
    sha256: str
    path: str | None = None


@frozen
class Record:
    """Everything about a run that does not change. ``environment`` maps names to their source.

    ``rules`` are all that count, the first one first; ``handlers`` are asked besides people, and
    ``on_event`` is fed what happens.
    ``session`` is the one to take up again, of the run ``resumed_from``, with the
    ``session_counters`` that its last run left. ``ancestors`` are the runs that it belongs
    to, the one that a person started first, its parent last. ``reaches`` are its agent's own
    destinations, which the ``network`` "agent" stands for. ``lent`` names the values that a
    person lent and that it may lend on. ``custom`` is what its profile was made of, where that is
    the user's own: as the configuration was then.
    """

    run: str
    created_ms: int
    agent: str
    adapter: str
    task: str
    dir: str
    worktree: str
    repository: Repository
    wall: Moment
    wall_s: float
    permission_s: float
    parked_s: float = PARKED_DEFAULT_S
    work_s: float | None = None
    stall_s: float | None = None
    turn_s: float | None = None
    queue_s: float | None = None
    limits: Limits = field(factory=Limits)
    on_limit: OnLimit = "wait"
    retries: int = 2
    priority: int = 0
    output_limit: int = 1 << 30
    account: str = ""
    check: str | None = None
    check_s: float = CHECK_DEFAULT_S
    setup: str | None = None
    copy: tuple[str, ...] = ()
    hook_s: float = hook.LIMIT_S
    profile: str = "edit"
    permissions: Permissions = "allow"
    rules: tuple[Rule, ...] = ()
    handlers: tuple[Handler, ...] = ()
    network: str = "host"
    reaches: tuple[str, ...] = ()
    model: str | None = None
    effort: str | None = None
    provider: str | None = None
    as_agent: str | None = None
    keep: bool = False
    argv: tuple[str, ...] = ()
    sentinel_file: str | None = None
    on_event: Handler | None = None
    title: str = ""
    labels: Mapping[str, str] = field(factory=dict)
    environment: Mapping[str, str] = field(factory=dict)
    executable: Executable | None = None
    policy_digest: str = ""
    warnings: tuple[str, ...] = ()
    continuing: int = 0
    request_key: str | None = None
    resumed_from: str | None = None
    session: str | None = None
    session_counters: Mapping[str, float] | None = None
    ancestors: tuple[str, ...] = ()
    delegate: Delegate | None = None
    lent: tuple[str, ...] = ()
    words: bool = False
    inputs: tuple[Input, ...] = ()
    artifacts: tuple[str, ...] = ()
    trust_tree: bool = False
    native: bool = False
    custom: Custom | None = None

    @property
    def walls(self) -> Profile:
        """What its profile is, fact by fact."""
        return PROFILES[self.profile] if self.custom is None else made_of(self.profile, self.custom)

    @property
    def writes(self) -> bool:
        """Whether its agent may change the task's worktree."""
        return self.walls.writes

    @property
    def destinations(self) -> Network:
        """What its network is, compiled."""
        return resolve(self.network.split(","), self.reaches)

    @property
    def has_gate(self) -> bool:
        """Whether a gate stands between its agents and the network."""
        return self.destinations.kind == "gate"

    @property
    def parent(self) -> str | None:
        """The run that started this one; None where a person did."""
        return self.ancestors[-1] if self.ancestors else None

    @property
    def root(self) -> str:
        """The run that this one's whole family comes from."""
        return self.ancestors[0] if self.ancestors else self.run

    @property
    def handle(self) -> str:
        """The five characters people name the run by."""
        return handle_of(self.run)

    @property
    def source(self) -> Source:
        """The facts by which those who follow many runs choose it."""
        return Source(
            self.run,
            self.task,
            self.agent,
            self.repository.key,
            self.labels,
            self.parent,
            self.ancestors,
        )

    def as_json(self) -> dict[str, Any]:
        """The record as it is written to request.json."""
        return _CONVERTER.unstructure(self)  # type: ignore[no-any-return]

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> "Record":
        """The record that `as_json` wrote."""
        return _CONVERTER.structure(dict(record), cls)
