"""Going on in the session of a run that has ended: the same in everything that matters to it."""

import os
from collections.abc import Mapping
from typing import Any, Protocol

import trio
from attrs import asdict, evolve, field, fields, frozen
from attrs.validators import optional

from coachman_adapters.conversation import Adapter, AgentSpec

from ...evidence.rundir import RunDirectory
from ...permissions.dead import living
from ...rpc.errors import RpcError
from ...rpc.params import must
from ..facts.places import places_of
from ..facts.record import Record
from ..services import Services
from ..tasks import Task, TaskStore
from .planning import Planned, Resumed, plan
from .request import KEY, InputRequest, StartRequest, Timeouts, are_words

# What a resume may name, and may not change.
SAME = ("agent", "model", "provider", "profile")


@frozen
class ResumeRequest:
    """What `run.resume` takes: a run that has ended, by id, and the next prompt for its session.

    All else is as that run had it, but for what is given here. ``env`` lends values anew, as
    for a start; ``dir`` is the caller's directory, which says what a name means. ``agent``,
    ``model``, ``provider`` and ``profile`` change nothing: where one differs from what the session
    was begun with, the resume is refused.
    """

    run: str
    prompt: str
    env: Mapping[str, str] = field(
        factory=dict,
        repr=lambda env: repr(sorted(env)),
        validator=must("names and values without NUL", lambda env: are_words(sum(env.items(), ()))),
    )
    keep: bool | None = None
    timeouts: Timeouts = field(factory=Timeouts)
    title: str | None = None
    request_key: str | None = field(default=None, validator=optional(KEY))
    no_wait: bool = False
    agent: str | None = None
    model: str | None = None
    provider: str | None = None
    profile: str | None = None
    dir: str | None = None


class House(Protocol):
    """What planning it needs to know of runs and tasks."""

    services: Services
    tasks: TaskStore

    def lives(self, run: str) -> bool: ...
    async def record_of(self, run: str) -> Record: ...


class Bounding(Protocol):
    """What a run that resumes one below it can give."""

    @property
    def ancestors(self) -> tuple[str, ...]: ...

    async def bounded(self, request: StartRequest, *, clamp: bool = False) -> StartRequest: ...
    async def check(self, planned: Planned) -> Planned: ...


async def plan_again(
    request: ResumeRequest, house: House, heritage: Bounding | None = None
) -> Planned:
    """Check that the session can be gone on with exactly. Raises RpcError."""
    before = await house.record_of(request.run)
    services = house.services
    if house.lives(request.run):
        raise _still_lives(before)
    spec = _adapter(before, services).spec
    _check_same(request, before)
    result = await trio.to_thread.run_sync(_result_of, services, request.run)
    session = _session(before, spec, result)
    task = await trio.to_thread.run_sync(_task_of, before, house.tasks)
    counters = await trio.to_thread.run_sync(_counters, services, task, before.agent, session)
    # A sealed session goes on with what it was handed; others take their files as they are now.
    exact = not before.repository.is_there or any(each.path is None for each in before.inputs)
    # Nobody confined has written there since it was said that the tree is trusted.
    trusted = before.trust_tree and task.runs[-1] == before.run
    wanted = evolve(_as_before(request, before), trust_tree=trusted)
    resumed = Resumed(before.run, session, counters, before if exact else None)
    if heritage is None:
        planned = await plan(wanted, services, house.tasks, resumed)
    else:
        wanted = await heritage.bounded(wanted, clamp=True)
        planned = await plan(wanted, services, house.tasks, resumed, heritage.ancestors)
        planned = await heritage.check(planned)
    record = planned.record
    # The session was begun in this directory, and agents look for theirs by it.
    repository = evolve(record.repository, prefix=before.repository.prefix)
    planned = evolve(planned, record=evolve(record, repository=repository, dir=before.dir))
    _check_policy(before, planned.record)
    await trio.to_thread.run_sync(_check_home, before, services)
    return planned


def why_not(before: Record, result: Mapping[str, Any], house: House) -> str | None:
    """Why the session of a run that has ended cannot be gone on with, as far as is known. Blocks.

    Whether its agent is installed and may do as much as then is only known to a start.
    """
    try:
        _session(before, _adapter(before, house.services).spec, result)
        _task_of(before, house.tasks)
        _check_home(before, house.services)
    except RpcError as error:
        return str(error).partition(": ")[2]
    return None


def _adapter(before: Record, services: Services) -> Adapter:
    """The adapter that the session was spoken to with, if the agent's name still means that."""
    instance = services.config.agents.get(before.agent)
    name = instance.adapter_of(before.agent) if instance else before.agent
    adapter = services.adapters.get(name)
    if adapter is None or adapter.spec.name != before.adapter:
        why = f"{before.agent} was another agent then ({before.adapter})"
        raise _refusal(before, why, "start a new run in its task instead", reason="agent")
    return adapter


def _check_same(request: ResumeRequest, before: Record) -> None:
    """A session goes on as it was begun, or not at all."""
    for name in SAME:
        wanted, was = getattr(request, name), getattr(before, name)
        if wanted is not None and wanted != was:
            why = f"its session has the {name} {was or 'of its own choice'}, not {wanted}"
            hint = f"leave {name} out, or start a new run in its task"
            raise _refusal(before, why, hint, reason=name, then=was, now=wanted)


def _as_before(request: ResumeRequest, before: Record) -> StartRequest:
    limits = {each.name: getattr(before, each.name) for each in fields(Timeouts)}
    given = {name: limit for name, limit in asdict(request.timeouts).items() if limit is not None}
    there = os.path.isdir(before.dir)
    return StartRequest(
        dir=before.dir if there else before.repository.toplevel or "/",
        prompt=request.prompt,
        agent=before.agent,
        argv=before.argv,
        model=before.model,
        effort=before.effort,
        provider=before.provider,
        as_agent=before.as_agent,
        keep=before.keep if request.keep is None else request.keep,
        task=before.task,
        profile=before.profile,
        network=tuple(before.network.split(",")),
        permissions=before.permissions,
        # An earlier version took rules that never match.
        rules=living([rule.requested for rule in before.rules if rule.origin == "request"]),
        permission_handler=_handler_before(before),
        env=request.env,
        timeouts=Timeouts(**{**limits, **given}),
        labels=before.labels,
        title=request.title,
        request_key=request.request_key,
        no_wait=request.no_wait,
        limits=before.limits,
        on_limit=before.on_limit,
        retries=before.retries,
        priority=before.priority,
        output_limit=before.output_limit,
        check=before.check or "",
        delegate=before.delegate,
        inputs=_inputs_before(before),
        artifacts=before.artifacts,
        native=before.native,
    )


def _inputs_before(before: Record) -> tuple[InputRequest, ...]:
    """The files and directories that are handed over again, as they are now."""
    if not before.repository.is_there:
        return ()
    given = ((each.path, each.name) for each in before.inputs)
    return tuple(InputRequest(path, name) for path, name in given if path is not None)


def _handler_before(before: Record) -> str | None:
    """The handler that it was asked for with, if any."""
    requested = [each.text for each in before.handlers if each.origin == "request"]
    return requested[0] if requested else None


def _refusal(before: Record, why: str, hint: str, **detail: Any) -> RpcError:
    text = f"cannot resume {before.handle}: {why}"
    again = [["coachman", "show", before.handle]]
    return RpcError("Conflict", text, hint, detail=detail, next=again)


def _still_lives(before: Record) -> RpcError:
    handle = before.handle
    steps = [["coachman", "wait", handle]]
    hint = "wait for its end"
    if before.keep:
        hint, steps = (
            "it takes prompts: coachman prompt; or close it first",
            [["coachman", "close", handle]],
        )
    text = f"cannot resume {handle}: the run still lives"
    return RpcError("Conflict", text, hint, detail={"reason": "lives"}, next=steps)


def _session(before: Record, spec: AgentSpec, result: Mapping[str, Any]) -> str:
    """The session to go on in: the one that the run was to be in, whatever came of that."""
    if not spec.resumes:
        why = f"agent {before.agent} cannot take a session up again"
        raise _refusal(before, why, "start a new run in its task instead", reason="agent")
    session = before.session or result.get("session")
    if session is None:
        why = "its agent never named its session"
        raise _refusal(before, why, "start a new run in its task instead", reason="no_session")
    return str(session)


def _result_of(services: Services, run: str) -> Mapping[str, Any]:
    return RunDirectory(services.state.run(run)).read_result() or {}


def _task_of(before: Record, tasks: TaskStore) -> Task:
    task = tasks.get(before.repository.key, before.task)
    gone = before.repository.is_there and not os.path.isdir(before.worktree)
    if task is None or task.going or gone:
        why = f"the worktree of task {before.task} is gone"
        raise _refusal(before, why, "start a new run instead", reason="no_worktree")
    same = (task.worktree, task.base) == (before.worktree, before.repository.base)
    if not same or before.run not in task.runs:
        why = f"task {before.task} is another tree by now"
        raise _refusal(before, why, "start a new run in it instead", reason="tree")
    return task


def _counters(
    services: Services, task: Task, agent: str, session: str
) -> Mapping[str, float] | None:
    """What the session counted when its newest run ended: later ones may have been on it too."""
    for run in reversed(task.runs):
        result = _result_of(services, run)
        same = (result.get("agent"), result.get("session")) == (agent, session)
        if same and result.get("session_counters") is not None:
            return dict(result["session_counters"])
    return None


def _check_policy(before: Record, record: Record) -> None:
    """The session lies in the private home, which belongs to the task, the agent and the policy."""
    if record.policy_digest != before.policy_digest:
        raise _refusal(
            before,
            "its session lies behind another boundary than it would have now",
            "start a new run in its task instead",
            reason="policy",
            then=before.policy_digest,
            now=record.policy_digest,
        )


def _check_home(before: Record, services: Services) -> None:
    home = places_of(before, services.state).home(before.agent, before.policy_digest)
    if not home.is_dir():
        why = "the private home that its session lay in is gone"
        raise _refusal(before, why, "start a new run in its task instead", reason="no_home")
