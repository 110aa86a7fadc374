"""From a run's record to the policy of its boundary: what its agent finds, reaches and is told."""

import os
from collections.abc import Mapping
from pathlib import Path

import trio
from attrs import evolve

from coachman import wire
from coachman_adapters.conversation import Adapter, AgentRequest, LaunchPlan
from coachman_sandbox import environment as crossing
from coachman_sandbox import layout
from coachman_sandbox.host import Host
from coachman_sandbox.policy import AgentAccess, Delegate, GitView, Place, Policy
from coachman_sandbox.profiles import without_namespace

from ...evidence.rundir import RunDirectory
from ..facts.places import guest_files, places_of, workspace_of
from ..facts.record import Record
from ..services import Services
from .gating import connected
from .program import Program, command_of, program_of, secret_names

CLIENT = str(Path(wire.__file__).parent)
# Stands for the home until the policy's digest has named it.
UNNAMED_HOME = "/nonexistent"


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


async def policy_as(record: Record, services: Services, environment: Mapping[str, str]) -> Policy:
    """The policy of a run before it has a place. Raises ExecutableError, PolicyError."""
    program = await trio.to_thread.run_sync(program_of, record, services, environment)
    return planned_policy(record, services, environment, program)[0]


def planned_policy(
    record: Record,
    services: Services,
    environment: Mapping[str, str],
    program: Program,
) -> tuple[Policy, tuple[str, ...]]:
    """The policy and the command to come, of the same digest, before there is a worktree. Pure."""
    adapter = services.adapters[record.adapter]
    home = home_inside(record, environment)
    plan = adapter.plan(agent_request(record, adapter, "", home))
    directory = RunDirectory(services.state.run(record.run))
    view = GitView(str(directory.git)) if record.repository.is_there else None
    access = access_of(record, services, environment, plan, program)
    place = place_of(record, directory, services, view, "", program.python)
    policy, _ = build_policy(record, services, place, access, services.boundary.host)
    return policy, command_inside(plan.argv, program, record, services)


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


def access_of(
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


def place_of(
    record: Record,
    directory: RunDirectory,
    services: Services,
    view: GitView | None,
    subfolder: str,
    python: str,
) -> Place:
    """The directories of a run as its boundary has them; its home is named later."""
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


def command_inside(
    argv: tuple[str, ...], program: Program, record: Record, services: Services
) -> tuple[str, ...]:
    """A plan's words as they are inside, ready to be run."""
    filled = command_of(argv, program)
    if not record.walls.native:
        return filled
    # Nothing is mounted: our own programs are where they are installed.
    inside = f"{layout.GUEST}/"
    return tuple(
        os.path.join(services.guest, word.removeprefix(inside)) if word.startswith(inside) else word
        for word in filled
    )


def home_inside(record: Record, environment: Mapping[str, str]) -> str:
    """The home as the agent sees it."""
    return environment["HOME"] if record.walls.native else layout.HOME
