"""Everything that must be in place before an agent starts: worktree, home, policy, program."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, field, frozen

from coachman_adapters.conversation import LaunchPlan
from coachman_sandbox import executables, layout
from coachman_sandbox.bubblewrap import Compiled, compile_policy
from coachman_sandbox.host import read_host
from coachman_sandbox.policy import GitView, Policy, PolicyError

from ... import durable
from ...evidence.rundir import RunDirectory
from ...repos.errors import RepoError
from ...repos.records import Artifact
from ...rpc.errors import RpcError
from ..facts.members import Site
from ..facts.record import Record
from ..intake import inputs
from ..intake.adopted import copy_session
from ..services import Services
from . import compiled, userfiles
from .gating import upstream_of
from .policy import access_of, agent_request, build_policy, command_inside, home_inside, place_of
from .program import Program, program_of, secret_names
from .shown import is_shown, show_repository
from .worktree import site_of


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
        site = await site_of(record, services, start)
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
    home = home_inside(record, environment)
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
    program = program_of(record, services, environment)
    view = GitView(str(directory.git)) if record.repository.is_there else None
    # Read anew: a laptop changes its network between two runs, a caller its certificates.
    host = read_host(environment)
    access = access_of(record, services, environment, plan, program)
    place = place_of(record, directory, services, view, site.subfolder, program.python)
    policy, home = build_policy(record, services, place, access, host)
    launch = Launch(
        compile_policy(policy),
        policy,
        program,
        command_inside(plan.argv, program, record, services),
        command_inside(plan.epilogue, program, record, services),
        plan.epilogue_limit_s,
        tuple(environment[name] for name in secret_names(adapter, environment)),
        site,
        upstream_of(environment) if policy.network.kind == "gate" else None,
    )
    return launch, home
