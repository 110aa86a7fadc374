"""The daemon's configuration as frozen records; `config_reader` makes them of the file."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from coachman.results import OnLimit, Permissions
from coachman.wire import PERMISSION_MODES

from . import config_values as values
from .permissions import rules

# The adapter of agents that nothing is known of but what the file says.
ACP = "acp"
USAGE_FORMS = ("none", "turn", "session", "steps")
NOTICES = ("attention", "ended", "limited", "degraded")
LOG_LEVELS = ("debug", "info", "warning", "error")


def _key(check: Callable[[Any, str], Any], default: Any, name: str | None = None) -> Any:
    """A field that the file may set, under ``name`` where that differs from the field's."""
    return field(default=default, metadata={"check": check, "name": name})


@frozen
class Timeouts:
    """Deadlines of a run that names none, in seconds; None: there is none."""

    wall_s: int = _key(values.duration, 4 * 3600, "wall")
    work_s: int | None = _key(values.duration, None, "work")
    stall_s: int = _key(values.duration, 20 * 60, "stall")
    turn_s: int | None = _key(values.duration, None, "turn")
    queue_s: int | None = _key(values.duration, None, "queue")
    permission_s: int = _key(values.duration, 3600, "permission")
    parked_s: int = _key(values.duration, 8 * 3600, "parked")
    check_s: int = _key(values.duration, 30 * 60, "check")
    hook_s: int = _key(values.duration, 60, "hook")


@frozen
class Capacity:
    """How many runs are active at once (None: as the machine allows), and how many may queue."""

    max_active: int | None = _key(values.count, None)
    max_queued: int = _key(values.count, 1000)


@frozen
class Storage:
    """Where task worktrees go (None: below the state directory) and the directories of sealed
    runs (None: /var/tmp/coachman-UID), what a run may write of its agent's output, what its
    directories may grow by, and the room that is kept for ends on a full disk, all in bytes.
    """

    worktrees: str | None = _key(values.path, None)
    sealed: str | None = _key(values.path, None)
    output_limit: int = _key(values.size, 1 << 30)
    disk_limit: int = _key(values.size, 10 << 30)
    reserve: int = _key(values.size, 16 << 20)


@frozen
class Retention:
    """When what ended runs leave goes by itself, and what is kept whatever happens.

    ``free_space_floor`` in bytes: below it no run starts. ``keep_ignored`` are shell
    patterns of ignored files that are work all the same.
    """

    worktrees_s: int = _key(values.duration, 7 * 86_400, "worktrees")
    raw_logs_s: int = _key(values.duration, 14 * 86_400, "raw_logs")
    free_space_floor: int = _key(values.size, 2 << 30)
    keep_ignored: tuple[str, ...] = _key(values.patterns, ())


@frozen
class Notify:
    """What a program of the user's is told of, and that program with its arguments."""

    on: tuple[str, ...] = _key(values.some_of(*NOTICES), ("attention", "ended"))
    command: tuple[str, ...] = _key(values.program, ())


@frozen
class Log:
    """What the daemon's log holds."""

    level: str = _key(values.one_of(*LOG_LEVELS), "info")


@frozen
class AgentInstance:
    """A named variant of an agent: another account, executable or model.

    ``adapter`` is the instance's own name where the file gives none. With the adapter "acp" it
    is an agent of its own, which the members from ``command`` on describe.
    """

    adapter: str | None = _key(values.name, None)
    executable: str | None = _key(values.path, None)
    model: str | None = _key(values.string, None)
    home: str | None = _key(values.path, None)
    env: Mapping[str, str] = field(
        factory=dict,
        repr=lambda env: f"<{len(env)} values>",
        metadata={"check": values.environment},
    )
    command: tuple[str, ...] = _key(values.command, ())
    environment: tuple[str, ...] = _key(values.variables, ())
    credentials: tuple[str, ...] = _key(values.variables, ())
    files: tuple[str, ...] = _key(values.home_files, ())
    credential_files: tuple[str, ...] = _key(values.home_files, ())
    efforts: tuple[str, ...] = _key(values.names, ())
    mode: str | None = _key(values.string, None)
    usage: str | None = _key(values.one_of(*USAGE_FORMS), None)
    pricing: str | None = _key(values.name, None)
    hosts: tuple[str, ...] = _key(values.destinations, ())

    def adapter_of(self, name: str) -> str:
        """The name of what talks to it, where its own is ``name``."""
        return name if self.adapter in (None, ACP) else str(self.adapter)


@frozen
class RuleSettings:
    """A standing rule about what agents ask: docs/permissions.md."""

    decide: str = _key(values.one_of(*rules.DECISIONS), "ask")
    tool: tuple[str, ...] = _key(values.some_of(*rules.KINDS), ())
    command: str | None = _key(values.command_pattern, None)
    path: str | None = _key(values.path_pattern, None)


@frozen
class RepoSettings:
    """What is so for the runs of one repository, by the path of its main worktree."""

    setup: str | None = _key(values.string, None)
    copy: tuple[str, ...] = _key(values.paths_below, ())
    check: str | None = _key(values.string, None)
    rules: tuple[RuleSettings, ...] = field(default=(), metadata={"rows": RuleSettings})


@frozen
class MountSettings:
    """A path of the host that is seen inside under the same name."""

    path: str = _key(values.path, "")
    writable: bool = _key(values.flag, False)


@frozen
class CapSettings:
    """What one run may take of the machine: bytes, and processes with their threads."""

    memory: int | None = _key(values.size, None)
    tasks: int | None = _key(values.count, None)
    disk: int | None = _key(values.size, None)


@frozen
class ProfileSettings:
    """What is so for the runs behind one boundary, by the profile's name.

    One that is not built in ``inherits`` another, and gives more than that one only where it is
    ``trusted``. None and empty: as that one has it; what is added to is added to.
    """

    inherits: str | None = _key(values.name, None)
    trusted: bool = _key(values.flag, False)
    worktree: str | None = _key(values.one_of("read-only", "read-write"), None)
    mounts: tuple[MountSettings, ...] = field(default=(), metadata={"rows": MountSettings})
    path: tuple[str, ...] = _key(values.paths, ())
    toolchains: tuple[str, ...] = _key(values.paths, ())
    environment: tuple[str, ...] = _key(values.variables, ())
    instructions: bool | None = _key(values.flag, None)
    network: tuple[str, ...] | None = _key(values.network, None)
    permissions: Permissions | None = _key(values.one_of(*PERMISSION_MODES), None)  # noqa: RUF009
    rules: tuple[RuleSettings, ...] = field(default=(), metadata={"rows": RuleSettings})
    delegate: bool | None = _key(values.flag, None)
    caps: CapSettings = field(factory=CapSettings, metadata={"table": CapSettings})


@frozen
class Config:
    """The whole configuration; every default is here."""

    agent: str | None = _key(values.name, None)
    profile: str = _key(values.name, "edit")
    permissions: Permissions | None = _key(values.one_of(*PERMISSION_MODES), None)  # noqa: RUF009
    network: tuple[str, ...] | None = _key(values.network, None)
    permission_handler: str | None = _key(values.handler, None)
    rules: tuple[RuleSettings, ...] = field(default=(), metadata={"rows": RuleSettings})
    on_limit: OnLimit = _key(values.one_of("wait", "fail"), "wait")  # noqa: RUF009
    retries: int = _key(values.count_or_none, 2)
    timeouts: Timeouts = field(factory=Timeouts, metadata={"table": Timeouts})
    capacity: Capacity = field(factory=Capacity, metadata={"table": Capacity})
    storage: Storage = field(factory=Storage, metadata={"table": Storage})
    retention: Retention = field(factory=Retention, metadata={"table": Retention})
    agents: Mapping[str, AgentInstance] = field(factory=dict, metadata={"each": AgentInstance})
    repo: Mapping[str, RepoSettings] = field(
        factory=dict, metadata={"each": RepoSettings, "named": values.directory}
    )
    profiles: Mapping[str, ProfileSettings] = field(
        factory=dict, metadata={"each": ProfileSettings}
    )
    notify: Notify = field(factory=Notify, metadata={"table": Notify})
    log: Log = field(factory=Log, metadata={"table": Log})

    def of_repository(self, toplevel: str) -> RepoSettings | None:
        """What is said of the repository whose main worktree that is. Blocks for a moment."""
        return self.repo.get(os.path.realpath(toplevel))
