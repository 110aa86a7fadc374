"""Everything that must be in place before an agent starts: worktree, home, policy, program."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, field, frozen

from coachman import wire
from coachman_adapters.conversation import Adapter, AgentRequest, LaunchPlan
from coachman_sandbox import environment as crossing
from coachman_sandbox import executables, gitview, layout
from coachman_sandbox.bubblewrap import Compiled, compile_policy
from coachman_sandbox.host import Host, read_host
from coachman_sandbox.policy import AgentAccess, Delegate, GitView, Place, Policy, PolicyError
from coachman_sandbox.profiles import without_namespace

from ... import durable
from ...build import installed_version
from ...config_profiles import writable
from ...evidence.rundir import RunDirectory
from ...evidence.state import StateDirectory
from ...repos.errors import RepoError
from ...repos.records import Artifact
from ...rpc.errors import RpcError
from ..facts.members import Site
from ..facts.places import guest_files, make, places_of, workspace_of
from ..facts.record import Record
from ..intake import inputs
from ..intake.adopted import copy_session
from ..services import Means, Services
from ..tasks import MAKING, Task, TaskStore
from ..tidying.removal import remove_worktree
from . import compiled, userfiles
from .gating import connected, upstream_of
from .shown import is_shown, show_repository, view_beside

CLIENT = str(Path(wire.__file__).parent)
# Stands for the home until the policy's digest has named it.
UNNAMED_HOME = "/nonexistent"


@frozen
class Program:
    """The agent's program, found on the host: what runs inside and what it needs bound."""

    path: str | None
    python: str
    access: AgentAccess
    sha256: str | None
    version: str | None


@frozen
class Launch:
    """One sandbox, ready to be started. ``mask`` are the secrets it will know."""

    compiled: Compiled
    policy: Policy
    program: Program
    command: tuple[str, ...]
    epilogue: tuple[str, ...]
    epilogue_limit_s: float
    mask: tuple[str, ...]
    site: Site
    upstream: Mapping[str, Any] | None = field(default=None, repr=False)


def agent_request(
    record: Record, adapter: Adapter, subfolder: str, home: str = layout.HOME
) -> AgentRequest:
    """What the adapter is told: paths as they are inside, names of variables, no values."""
    return AgentRequest(
        cwd=os.path.join(workspace_of(record), subfolder).rstrip("/"),
        home=home,
        profile=record.profile,
        permissions=record.permissions,
        judged=bool(record.rules),
        words=record.words,
        argv=record.argv,
        model=record.model,
        effort=record.effort,
        provider=record.provider,
        as_agent=record.as_agent,
        session=record.session,
        session_counters=record.session_counters,
        keep=record.keep,
        env_names=frozenset(record.environment) & frozenset(adapter.spec.environment),
    )


def find_program(
    agent: str,
    adapter: Adapter,
    services: Means,
    search: Mapping[str, str],
    *agent_roots: str,
    guests: bool = False,
) -> Program:
    """The agent's program on this host, outside of what agents write (``agent_roots`` too).

    The configuration's executable, else the first on the PATH of ``search``. With ``guests``
    coachman's own programs can be run beside it. Blocks. Raises `ExecutableError`.
    """
    spec, forbidden = (
        adapter.spec,
        forbidden_roots(services.state, *agent_roots, *writable(services.config)),
    )
    names, search = _searched(agent, spec.executables, services, search)
    python = executables.python_runtime()
    found = None
    if names:
        found = executables.resolve(names, search, native=spec.native, forbidden=forbidden)
    guests = guests or spec.runtime == "python"
    access = executables.agent_access(
        found, env={}, credentials={}, python=python if guests else None
    )
    if found is None and spec.runtime == "python":
        # Coachman's own program: its version, and the interpreter's hash.
        return Program(None, python.path, access, python.sha256, installed_version())
    return Program(
        found.path if found else None,
        python.path,
        access,
        found.sha256 if found else None,
        found.version if found else None,
    )


def _searched(
    agent: str, names: tuple[str, ...], services: Means, search: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    instance = services.config.agents.get(agent)
    if not names or instance is None or instance.executable is None:
        return names, search
    directory, name = os.path.split(instance.executable)
    return (name,), {**search, "PATH": f"{directory}:{search.get('PATH', '')}"}


def forbidden_roots(state: StateDirectory, *roots: str) -> tuple[str, ...]:
    """Canonical directories that agents may write: no executable may lie there."""
    return tuple(os.path.realpath(path) for path in (str(state.root), str(state.worktrees), *roots))


async def prepare(
    record: Record,
    directory: RunDirectory,
    services: Services,
    environment: Mapping[str, str],
    start: str | None = None,
    attempt: int = 1,
) -> Launch:
    """Make worktree, home and seeds, and compile the policy. Raises RpcError.

    ``start`` is the commit that an earlier attempt of the run started from. What was compiled is
    on record before this ``attempt``'s agent can start.
    """
    try:
        site = await _site(record, services, start)
        if is_shown(record):
            await show_repository(record, directory, services, site.admin)
        instructions = await _instructions(record, services, site)
        given = await trio.to_thread.run_sync(inputs.digests, record, services.state)
        launch = await trio.to_thread.run_sync(
            _place_and_compile, record, directory, services, environment, site, start is None
        )
        made = compiled.document(
            launch.policy, launch.command, launch.program, services, instructions, given
        )
        await trio.to_thread.run_sync(compiled.record, directory, attempt, made)
        return launch
    except RepoError as error:
        raise RpcError("AgentFailed", error.message, hint=error.hint) from error
    except (PolicyError, executables.ExecutableError, OSError, ValueError) as error:
        raise RpcError("AgentFailed", f"cannot prepare the run: {error}") from error


async def _instructions(record: Record, services: Services, site: Site) -> tuple[Artifact, ...]:
    """The digests of the files by which the worktree instructs agents."""
    if not record.repository.is_there:
        return ()
    return await services.workers.hash_instructions(
        record.worktree, site.subfolder, key=record.repository.common_dir
    )


async def _site(record: Record, services: Services, start: str | None) -> Site:
    """The run's worktree, made or found, and the commit that the run starts from."""
    places = places_of(record, services.state)
    await trio.to_thread.run_sync(make, places, services.state)
    if not record.repository.is_there:
        return Site()
    async with services.trees.held(record.worktree):
        admin = await _worktree(record, services)
    subfolder = await trio.to_thread.run_sync(_subfolder, record)
    repo = record.repository
    # What set a worktree up is none of an agent's work, also where a daemon died behind it.
    if start is not None or not (record.continuing or record.setup or record.copy):
        return Site(admin, subfolder, start or repo.base)
    snapshot = await services.workers.snapshot(
        repo.common_dir,
        admin_dir(record, admin),
        record.worktree,
        # What a run leaves that changes nothing is the tree that it found.
        ref=None if record.writes else f"refs/coachman/run/{record.run}",
        parents=(repo.base,),
        message=f"coachman: before run {record.run}",
    )
    return Site(admin, subfolder, snapshot.commit)


async def _worktree(record: Record, services: Services) -> str:
    """Make the task's worktree unless it is there; the name of its entry in the repository."""
    repo, tree, tasks = record.repository, record.worktree, TaskStore(services.state)
    task = await trio.to_thread.run_sync(tasks.get, repo.key, record.task)
    assert task is not None
    if task.going:
        # A killed daemon was removing it; all that it held is in a commit.
        task = await remove_worktree(services, task)
    admin = task.admin
    if not admin or not await trio.Path(tree, ".git").is_file():
        admin = await _new_worktree(record, services, tasks, task)
    await trio.to_thread.run_sync(gitview.check_pointer, tree)
    return admin


async def _new_worktree(record: Record, services: Services, tasks: TaskStore, task: Task) -> str:
    repo, tree = record.repository, record.worktree
    await trio.to_thread.run_sync(durable.make_directory, services.state.worktrees / repo.key)
    if task.admin == MAKING:
        # A killed daemon left it half-made; no agent was ever in it.
        await services.workers.delete_tree(tree)
    elif await trio.to_thread.run_sync(_is_vacant, tree):
        await trio.to_thread.run_sync(tasks.set_admin, repo.key, record.task, MAKING)
    wants = bool(record.setup or record.copy)
    if task.bare != wants:
        await trio.to_thread.run_sync(tasks.set_bare, repo.key, record.task, wants)
    start = task.kept or repo.base
    async with view_beside(record, services, start):
        path = await services.workers.create_worktree(
            repo.common_dir, admin_name(record), tree, start
        )
    # The name may have been taken by something else: what it became is kept.
    admin = os.path.basename(path)
    await trio.to_thread.run_sync(tasks.set_admin, repo.key, record.task, admin)
    return admin


def _is_vacant(tree: str) -> bool:
    try:
        return not os.listdir(tree)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


def admin_name(record: Record) -> str:
    """The name that is asked for the task's worktree entry in the repository."""
    return f"coachman-{record.task}"


def admin_dir(record: Record, admin: str) -> str:
    """Where a worktree's entry lies."""
    return os.path.join(record.repository.common_dir, "worktrees", admin)


def _place_and_compile(
    record: Record,
    directory: RunDirectory,
    services: Services,
    environment: Mapping[str, str],
    site: Site,
    is_first: bool,
) -> Launch:
    """All that the agent finds; ``is_first``: no attempt of the run was made before. Blocks."""
    adapter = services.adapters[record.adapter]
    home = _home_inside(record, environment)
    plan = adapter.plan(agent_request(record, adapter, site.subfolder, home))
    launch, private = compile_launch(record, directory, services, environment, plan, site)
    found = userfiles.secrets_of(record, adapter, environment)
    launch = evolve(launch, mask=(*launch.mask, *found))
    durable.make_directory(private)
    if record.delegate is not None:
        durable.make_directory(directory.delegate)
    if record.walls.native:
        return launch
    userfiles.copy(record, adapter, environment, private)
    # The session of a later attempt lies there already, and has gone on.
    if is_first and record.session is not None and record.resumed_from is None:
        assert adapter.spec.sessions is not None
        cwd = os.path.join(layout.WORKSPACE, site.subfolder).rstrip("/")
        copy_session(record.session, adapter.spec.sessions, environment, cwd, private)
    userfiles.seed(plan, record, adapter, environment, private)
    return launch


def _home_inside(record: Record, environment: Mapping[str, str]) -> str:
    """The home as the agent sees it."""
    return environment["HOME"] if record.walls.native else layout.HOME


def _subfolder(record: Record) -> str:
    """The caller's own folder of the worktree; its top where the base does not have it."""
    prefix = record.repository.prefix
    return prefix if os.path.isdir(os.path.join(record.worktree, prefix)) else ""


def compile_launch(
    record: Record,
    directory: RunDirectory,
    services: Services,
    environment: Mapping[str, str],
    plan: LaunchPlan,
    site: Site,
) -> tuple[Launch, Path]:
    """The sandbox of a run and its home. Reads the host, changes nothing. Blocks."""
    adapter = services.adapters[record.adapter]
    program = _program(record, services, environment)
    view = GitView(str(directory.git)) if record.repository.is_there else None
    # Read anew: a laptop changes its network between two runs, a caller its certificates.
    host = read_host(environment)
    access = _access(record, services, environment, plan, program)
    place = _place(record, directory, services, view, site.subfolder, program.python)
    policy, home = build_policy(record, services, place, access, host)
    launch = Launch(
        compile_policy(policy),
        policy,
        program,
        _command(plan.argv, program, record, services),
        _command(plan.epilogue, program, record, services),
        plan.epilogue_limit_s,
        tuple(environment[name] for name in secret_names(adapter, environment)),
        site,
        upstream_of(environment) if policy.network.kind == "gate" else None,
    )
    return launch, home


def _program(record: Record, services: Services, environment: Mapping[str, str]) -> Program:
    adapter, roots = services.adapters[record.adapter], record.repository.roots
    guests = record.delegate is not None
    return find_program(record.agent, adapter, services, environment, *roots, guests=guests)


def secret_names(adapter: Adapter, environment: Mapping[str, str]) -> list[str]:
    """The names of the agent's credentials that have a value."""
    return [name for name in adapter.spec.credentials if environment.get(name)]


async def policy_as(record: Record, services: Services, environment: Mapping[str, str]) -> Policy:
    """The policy of a run before it has a place. Raises ExecutableError, PolicyError."""
    program = await trio.to_thread.run_sync(_program, record, services, environment)
    return planned_policy(record, services, environment, program)[0]


def planned_policy(
    record: Record,
    services: Services,
    environment: Mapping[str, str],
    program: Program,
) -> tuple[Policy, tuple[str, ...]]:
    """The policy and the command to come, of the same digest, before there is a worktree. Pure."""
    adapter = services.adapters[record.adapter]
    home = _home_inside(record, environment)
    plan = adapter.plan(agent_request(record, adapter, "", home))
    directory = RunDirectory(services.state.run(record.run))
    view = GitView(str(directory.git)) if record.repository.is_there else None
    access = _access(record, services, environment, plan, program)
    place = _place(record, directory, services, view, "", program.python)
    policy, _ = build_policy(record, services, place, access, services.boundary.host)
    return policy, _command(plan.argv, program, record, services)


def _command(
    argv: tuple[str, ...], program: Program, record: Record, services: Services
) -> tuple[str, ...]:
    filled = command_of(argv, program)
    if not record.walls.native:
        return filled
    # Nothing is mounted: our own programs are where they are installed.
    inside = f"{layout.GUEST}/"
    return tuple(
        os.path.join(services.guest, word.removeprefix(inside)) if word.startswith(inside) else word
        for word in filled
    )


def command_of(argv: tuple[str, ...], program: Program) -> tuple[str, ...]:
    """A plan's words with the program's path in them."""
    words = {"{executable}": program.path or "", "{python}": program.python}
    return tuple(words.get(word, word) for word in argv)


def build_policy(
    record: Record, services: Services, place: Place, access: AgentAccess, host: Host
) -> tuple[Policy, Path]:
    """The policy of a run, and its home. Pure."""
    walls = record.walls

    def build(place: Place, access: AgentAccess, host: Host) -> Policy:
        policy = connected(walls.build(place, access, host), record.destinations)
        policy = without_namespace(policy) if record.native else policy
        disk_bytes = walls.caps.get("disk_bytes", services.config.storage.disk_limit)
        return evolve(policy, caps=policy.caps and evolve(policy.caps, disk_bytes=disk_bytes))

    # The digest does not depend on where the home lies, and the home is named by it.
    digest = build(place, access, host).digest
    home = places_of(record, services.state).home(record.agent, digest)
    return build(evolve(place, home=str(home)), access, host), home


def _access(
    record: Record,
    services: Services,
    environment: Mapping[str, str],
    plan: LaunchPlan,
    program: Program,
) -> AgentAccess:
    """What the agent needs beyond its place: its program, and the variables that cross."""
    adapter = services.adapters[record.adapter]
    secret, profile = secret_names(adapter, environment), record.walls
    named = profile.named
    plain = {
        **crossing.crossing(environment, named=named),
        **(crossing.native(environment) if profile.native else {}),
        **{n: environment[n] for n in profile.environment if n in environment},
        **{name: environment[name] for name in adapter.spec.environment if name in environment},
        **crossing.run_variables(record.run, record.task, record.wall.epoch_ms, named=named),
        **_delegate_variables(record),
        **plan.env,
        **(
            {n: environment[n] for n in adapter.spec.locations if n in environment}
            if profile.native
            else {}
        ),
    }
    return evolve(
        program.access,
        env={name: value for name, value in plain.items() if name not in secret},
        credentials={name: environment[name] for name in secret},
    )


def _delegate_variables(record: Record) -> dict[str, str]:
    granted = record.delegate
    return crossing.delegate_variables(granted.depth, granted.children) if granted else {}


def _place(
    record: Record,
    directory: RunDirectory,
    services: Services,
    view: GitView | None,
    subfolder: str,
    python: str,
) -> Place:
    delegate = Delegate(str(directory.delegate), CLIENT, python) if record.delegate else None
    places = places_of(record, services.state)
    return Place(
        workspace=record.worktree or None,
        subfolder=subfolder,
        git=view,
        home=UNNAMED_HOME,
        scratch=str(places.scratch),
        output=str(places.output),
        inputs=str(places.inputs),
        guest=None if places.neutral else services.guest,
        guests=guest_files(services.guest) if places.neutral else {},
        state_dir=os.path.realpath(services.state.root),
        delegate=delegate,
    )
