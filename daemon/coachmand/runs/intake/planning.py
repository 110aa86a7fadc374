"""From what a caller asks to a run's record: everything is checked before anything happens."""

import time
from collections.abc import Mapping
from typing import Any

import trio
from attrs import asdict, evolve, field, frozen

from coachman_adapters.conversation import Adapter, AgentSpec
from coachman_sandbox.policy import Policy, PolicyError

from ...evidence import ids
from ...redaction import Redactor
from ..credentials.environment import environment_of
from ..facts.clock import Moment
from ..facts.places import check_neutral
from ..facts.record import Executable, Record
from ..preparing.briefing import briefed
from ..preparing.policy import planned_policy
from ..preparing.program import Program, secret_names
from ..services import Services
from ..tasks import Task, TaskStore
from .adopted import find_session
from .agent import account, agent_of, check_agent, check_budget, instance_model, program_of
from .inputs import Wanted, wanted_of
from .network import networked
from .permissions import check_asks, deciding, fed_program
from .place import (
    base_of,
    check_of,
    check_trust,
    recorded,
    repository_of,
    sentinel_of,
    setup_of,
    task_name,
    warnings_of,
)
from .profile import profile_of
from .request import StartRequest, usage

MAX_TITLE_CHARACTERS = 80


@frozen
class Planned:
    """A run that may be started: its record, its task, its environment, its prompt.

    ``lent`` is the part of the environment that came with the request.
    ``inputs`` are copied before it is on record.
    ``policy`` and ``command`` are those to come; the worktree may not be there yet.
    """

    record: Record
    task: Task
    environment: Mapping[str, str] = field(repr=False)
    prompt: str = field(repr=False)
    policy: Policy
    command: tuple[str, ...] = field(repr=False)
    program: Program
    lent: Mapping[str, str] = field(factory=dict, repr=lambda env: repr(sorted(env)))
    inputs: Wanted = field(factory=Wanted)


@frozen
class Resumed:
    """The session that a run goes on in: of which run, and what it counted so far.

    ``inherits`` is that run where its inputs are had as well.
    """

    run: str
    session: str
    counters: Mapping[str, float] | None
    inherits: Record | None = None


async def plan(
    request: StartRequest,
    services: Services,
    tasks: TaskStore,
    resumed: Resumed | None = None,
    ancestors: tuple[str, ...] = (),
) -> Planned:
    """Check a request against agent, profile, repository and task. Raises RpcError.

    ``ancestors`` are those of a run that another one starts.
    """
    name, adapter = agent_of(request, services)
    check_agent(request, name, adapter, services)
    check_asks(request, name, adapter.spec)
    await check_budget(request, name, adapter, services)
    chosen = await trio.to_thread.run_sync(profile_of, request, services)
    walls = chosen.walls
    if not walls.repository:
        await trio.to_thread.run_sync(check_neutral, services.state)
    found = await repository_of(request, walls, services)
    if ancestors:
        # What the user has changed meanwhile is nothing to do with it.
        found = evolve(found, uncommitted=0)
    base = await base_of(request, found, services)
    inherits = resumed.inherits if resumed else None
    wanted = await trio.to_thread.run_sync(wanted_of, request, inherits)
    run = ids.new_run_id()
    named = task_name(request, run)
    repo = recorded(found, base)
    task = await trio.to_thread.run_sync(tasks.get_or_new, repo, named)
    await trio.to_thread.run_sync(check_trust, request, walls, task, services)
    declared = (*adapter.spec.environment, *walls.environment)
    environment, sources = environment_of(request.env, name, declared, services)
    await trio.to_thread.run_sync(find_session, request, name, adapter.spec, walls, environment)
    program = await program_of(name, adapter, repo, services, environment)
    decides = await deciding(request, walls, found, task.worktree, services)
    secrets = [environment[name] for name in secret_names(adapter, environment)]
    record = Record(
        run=run,
        created_ms=time.time_ns() // 1_000_000,
        agent=name,
        adapter=adapter.spec.name,
        task=task.name,
        dir=request.dir,
        worktree=task.worktree,
        repository=evolve(repo, base=task.base),
        check=check_of(request, found, services),
        **setup_of(found, services),
        sentinel_file=await sentinel_of(request, services),
        on_event=await fed_program(request, found, task.worktree, services),
        profile=walls.name,
        custom=chosen.custom,
        permissions=decides.permissions,
        # An agent asks in words only where somebody is there to say something.
        words=decides.permissions == "ask",
        rules=decides.rules if adapter.spec.asks_permission else (),
        handlers=decides.handlers if adapter.spec.asks_permission else (),
        title=Redactor(secrets).mask_text(_title(request)),
        labels=dict(request.labels),
        environment=sources,
        executable=Executable(program.path or program.python, program.sha256, program.version),
        warnings=warnings_of(request, found, task),
        continuing=len(task.runs),
        request_key=request.request_key,
        artifacts=request.artifacts,
        trust_tree=request.trust_tree,
        native=request.native,
        ancestors=ancestors,
        **_delegate(request),
        **_limited(request, adapter.spec, services),
        **_told(request, name, adapter, services),
        **_session(request, resumed),
    )
    record = evolve(record, **await networked(request, record, adapter, services, environment))
    policy, command = _compiled(record, services, environment, program)
    spec, prompt = adapter.spec, request.prompt
    if spec.briefed:
        prompt = briefed(record, prompt, services.state, given=bool(wanted))
    record = evolve(record, policy_digest=policy.digest)
    return Planned(record, task, environment, prompt, policy, command, program, request.env, wanted)


def _compiled(
    record: Record, services: Services, environment: Mapping[str, str], program: Program
) -> tuple[Policy, tuple[str, ...]]:
    try:
        return planned_policy(record, services, environment, program)
    except PolicyError as error:
        text = f"the boundary of profile {record.profile} cannot be made: {error}"
        hint = f"coachman profile explain {record.profile} has what it is to be"
        raise usage(text, hint) from error


def _delegate(request: StartRequest) -> dict[str, Any]:
    """What it may start itself, and which values that could be lent on."""
    if request.delegate is None:
        return {}
    return {"delegate": request.delegate, "lent": tuple(sorted(request.env))}


def _limited(request: StartRequest, spec: AgentSpec, services: Services) -> dict[str, Any]:
    """How long it may take and how much it may use: as asked, else as configured."""
    config, given = services.config, asdict(request.timeouts)
    limits = asdict(config.timeouts)
    limits.update((name, limit) for name, limit in given.items() if limit is not None)
    if spec.takes_argv:
        # A program that speaks no protocol may be silent for as long as it likes, unless told.
        limits["stall_s"] = request.timeouts.stall_s
    return {
        **limits,
        "wall": Moment.now(services.boot, limits["wall_s"]),
        "limits": request.limits,
        "on_limit": request.on_limit or config.on_limit,
        "retries": config.retries if request.retries is None else request.retries,
        "priority": request.priority,
        "output_limit": request.output_limit or config.storage.output_limit,
    }


def _told(request: StartRequest, name: str, adapter: Adapter, services: Services) -> dict[str, Any]:
    """What its agent is told to be, and whose limits it shares."""
    return {
        "account": account(request, name, adapter, services),
        "model": request.model or instance_model(name, services),
        "effort": request.effort,
        "provider": request.provider,
        "as_agent": request.as_agent,
        "keep": request.keep,
        "argv": request.argv,
    }


def _session(request: StartRequest, resumed: Resumed | None) -> dict[str, Any]:
    """The session it goes on in, if any."""
    if resumed is None:
        return {"session": request.session}
    return {
        "resumed_from": resumed.run,
        "session": resumed.session,
        "session_counters": resumed.counters,
    }


def _title(request: StartRequest) -> str:
    text = request.title or request.prompt.strip() or " ".join(request.argv)
    return text.split("\n", 1)[0][:MAX_TITLE_CHARACTERS]
