"""From what a caller asks to a run's record: everything is checked before anything happens."""

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

import trio
from attrs import asdict, evolve, field, frozen
from attrs.validators import optional

from coachman.results import OnLimit, Permissions
from coachman_adapters.conversation import Adapter, AgentSpec
from coachman_sandbox.executables import ExecutableError
from coachman_sandbox.profiles import PROFILES

from ..evidence import ids
from ..evidence.pricing import price_of
from ..evidence.state import repo_key
from ..redaction import Redactor
from ..repos.errors import NOT_A_REPOSITORY, RepoError
from ..repos.records import Repository as FoundRepository
from ..rpc.errors import RpcError
from ..rpc.params import must
from .briefing import brief
from .budgets import Limits
from .clock import Moment
from .costs import served_by
from .missing import missing_program, no_agent, unknown_agent
from .prepare import Program, find_program, policy_digest, secret_names
from .record import Executable, Record, Repository
from .services import Services
from .tasks import Task, TaskStore

MAX_TITLE_CHARACTERS = 80
MAX_LABELS = 64
MAX_KEY_CHARACTERS = 256
ONE_TOKEN = {"input": 1, "total": 1}
MOST_RETRIES = 20
MOST_PRIORITY = 10
MAX_TIMEOUT_S = 366 * 86400.0


def _is_path(path: str) -> bool:
    return path.startswith("/") and "\0" not in path


def are_words(words: Iterable[str]) -> bool:
    return not any("\0" in word for word in words)


def _is_key(key: str) -> bool:
    return 1 <= len(key) <= MAX_KEY_CHARACTERS


KEY = must(f"1 to {MAX_KEY_CHARACTERS} characters", _is_key)

_SECONDS = must(
    f"a number of seconds above 0 and at most {MAX_TIMEOUT_S:.0f}",
    lambda seconds: 0 < seconds <= MAX_TIMEOUT_S,
)


_RETRIES = must(f"0 to {MOST_RETRIES}", lambda retries: 0 <= retries <= MOST_RETRIES)
_PRIORITY = must(f"{-MOST_PRIORITY} to {MOST_PRIORITY}", lambda p: abs(p) <= MOST_PRIORITY)


_BYTES = must("a number of bytes above 0", lambda size: 0 < size < 1 << 60)


@frozen
class Timeouts:
    """Limits of this run in seconds; those of the configuration where left out.

    ``wall`` is for all of it, ``work`` for what its agent is busy, ``turn`` for each turn,
    ``stall`` for the agent's silence, ``queue`` for the time until it begins.
    """

    wall_s: float | None = field(default=None, validator=optional(_SECONDS))
    work_s: float | None = field(default=None, validator=optional(_SECONDS))
    stall_s: float | None = field(default=None, validator=optional(_SECONDS))
    turn_s: float | None = field(default=None, validator=optional(_SECONDS))
    queue_s: float | None = field(default=None, validator=optional(_SECONDS))
    permission_s: float | None = field(default=None, validator=optional(_SECONDS))
    parked_s: float | None = field(default=None, validator=optional(_SECONDS))
    check_s: float | None = field(default=None, validator=optional(_SECONDS))


@frozen
class StartRequest:
    """What `run.start` takes. ``dir`` is the caller's directory, absolute.

    ``env`` lends the values of the variables that the agent declares; they stay in memory.
    ``as_agent`` names one of the CLI's own agents. With ``keep`` the run takes more prompts.
    ``output_limit`` is how many bytes the agent may write.
    ``on_limit`` says what a provider's limit means, ``retries`` how often to try without knowing
    when it ends; a run of higher ``priority`` gets a place before those of lower.
    ``check`` is a shell command that decides at the end, "" for none where one is configured.
    """

    dir: str = field(validator=must("an absolute path", _is_path))
    prompt: str = ""
    agent: str | None = None
    argv: tuple[str, ...] = field(default=(), validator=must("words without NUL", are_words))
    model: str | None = None
    effort: str | None = None
    provider: str | None = None
    as_agent: str | None = None
    keep: bool = False
    task: str | None = None
    profile: str | None = None
    permissions: Permissions | None = None
    base: str | None = None
    env: Mapping[str, str] = field(
        factory=dict,
        repr=lambda env: repr(sorted(env)),
        validator=must("names and values without NUL", lambda env: are_words(sum(env.items(), ()))),
    )
    timeouts: Timeouts = Timeouts()
    labels: Mapping[str, str] = field(
        factory=dict, validator=must(f"at most {MAX_LABELS}", lambda m: len(m) <= MAX_LABELS)
    )
    title: str | None = None
    request_key: str | None = field(
        default=None,
        validator=optional(KEY),
    )
    no_wait: bool = False
    dry_run: bool = False
    limits: Limits = field(factory=Limits)
    on_limit: OnLimit | None = None
    retries: int | None = field(default=None, validator=optional(_RETRIES))
    priority: int = field(default=0, validator=_PRIORITY)
    output_limit: int | None = field(default=None, validator=optional(_BYTES))
    check: str | None = field(
        default=None, validator=optional(must("a command without NUL", lambda c: "\0" not in c))
    )


@frozen
class Planned:
    """A run that may be started: its record, its task, its environment, its prompt."""

    record: Record
    task: Task
    environment: Mapping[str, str] = field(repr=False)
    prompt: str = field(repr=False)


def usage(message: str, hint: str | None = None, **detail: Any) -> RpcError:
    """A refusal of what was asked."""
    return RpcError("InvalidParams", f"cannot start: {message}", hint, detail=detail or None)


@frozen
class Resumed:
    """The session that a run goes on in: of which run, and what it counted so far."""

    run: str
    session: str
    counters: Mapping[str, float] | None


async def plan(
    request: StartRequest, services: Services, tasks: TaskStore, resumed: Resumed | None = None
) -> Planned:
    """Check a request against agent, profile, repository and task. Raises RpcError."""
    name, adapter = _agent(request, services)
    _check_agent(request, name, adapter, services)
    await _check_budget(request, name, adapter, services)
    profile = _profile(request, services)
    found = await _repository(request, services)
    base = await _base(request, found, services)
    run = ids.new_run_id()
    task_name = _task_name(request, run)
    repo = Repository(
        repo_key(found.common_dir),
        found.common_dir,
        found.toplevel,
        found.prefix,
        base,
        found.uncommitted,
    )
    task = await trio.to_thread.run_sync(tasks.get_or_new, repo, task_name)
    environment, sources = _environment(request, name, adapter, services)
    program = await _program(name, adapter, found, services, environment)
    secrets = [environment[name] for name in secret_names(adapter, environment)]
    limits = _limits(request.timeouts, services)
    record = Record(
        run=run,
        created_ms=time.time_ns() // 1_000_000,
        agent=name,
        adapter=adapter.spec.name,
        task=task_name,
        dir=request.dir,
        worktree=task.worktree,
        repository=Repository(
            repo.key, repo.common_dir, repo.toplevel, repo.prefix, task.base, repo.uncommitted
        ),
        wall=Moment.now(services.boot, limits["wall_s"]),
        wall_s=limits["wall_s"],
        permission_s=limits["permission_s"],
        parked_s=limits["parked_s"],
        work_s=limits["work_s"],
        stall_s=_stall_s(request.timeouts, adapter.spec, limits),
        turn_s=limits["turn_s"],
        queue_s=limits["queue_s"],
        limits=request.limits,
        on_limit=request.on_limit or services.config.on_limit,
        retries=services.config.retries if request.retries is None else request.retries,
        priority=request.priority,
        output_limit=request.output_limit or services.config.storage.output_limit,
        account=_account(request, name, adapter, services),
        check=_check(request, found, services),
        check_s=limits["check_s"],
        profile=profile,
        permissions=request.permissions or services.config.permissions or "allow",
        model=request.model or _instance_model(name, services),
        effort=request.effort,
        provider=request.provider,
        as_agent=request.as_agent,
        keep=request.keep,
        argv=request.argv,
        title=Redactor(secrets).mask_text(_title(request)),
        labels=dict(request.labels),
        environment=sources,
        executable=Executable(program.path or program.python, program.sha256, program.version),
        warnings=_warnings(request, found, task),
        continuing=len(task.runs),
        request_key=request.request_key,
        resumed_from=resumed.run if resumed else None,
        session=resumed.session if resumed else None,
        session_counters=resumed.counters if resumed else None,
    )
    digest = policy_digest(record, services, environment, program)
    spec, prompt = adapter.spec, request.prompt
    if spec.briefed:
        prompt = brief(prompt, record.wall.epoch_ms)
    return Planned(evolve(record, policy_digest=digest), task, environment, prompt)


def _agent(request: StartRequest, services: Services) -> tuple[str, Adapter]:
    name = request.agent or services.config.agent
    if name is None and request.argv:
        name = "command"
    if name is None:
        raise no_agent(services)
    instance = services.config.agents.get(name)
    adapter = services.adapters.get(instance.adapter_of(name) if instance else name)
    if adapter is None:
        raise unknown_agent(services, f"cannot start: there is no agent {name!r}")
    return name, adapter


def _limits(timeouts: Timeouts, services: Services) -> dict[str, Any]:
    """The limits of a run, those of the configuration where the request has none."""
    given = {name: limit for name, limit in asdict(timeouts).items() if limit is not None}
    return {**asdict(services.config.timeouts), **given}


def _stall_s(timeouts: Timeouts, spec: AgentSpec, limits: Mapping[str, Any]) -> float | None:
    """A program that speaks no protocol may be silent for as long as it likes, unless told."""
    return timeouts.stall_s if spec.takes_argv else limits["stall_s"]


def _account(request: StartRequest, name: str, adapter: Adapter, services: Services) -> str:
    """Whose limits it shares: an agent's instance, and the provider as far as it is known."""
    prefix, slash, _ = (request.model or _instance_model(name, services) or "").partition("/")
    provider = request.provider or (prefix if slash else adapter.spec.pricing) or ""
    return f"{name}/{provider}"


def _check(request: StartRequest, found: FoundRepository, services: Services) -> str | None:
    """The run's own, else the repository's."""
    configured = services.config.repo.get(os.path.realpath(found.toplevel))
    given = request.check if request.check is not None else configured and configured.check
    return given if given and given.strip() else None


def _check_agent(request: StartRequest, name: str, adapter: Adapter, services: Services) -> None:
    spec = adapter.spec
    if spec.takes_argv and not request.argv:
        raise usage(
            f"agent {name} needs a program", "give it after --: coachman run -- PROGRAM ARG…"
        )
    if request.argv and not spec.takes_argv:
        raise usage(f"agent {name} takes no program after --", "use -a command for that")
    if not spec.takes_argv and not request.prompt.strip():
        raise usage("the prompt is empty")
    if request.effort is not None and request.effort not in spec.efforts:
        takes = ", ".join(spec.efforts) or "none at all"
        raise usage(f"agent {name} knows no effort {request.effort!r}", f"it takes {takes}")
    if request.permissions in ("ask", "deny") and not spec.asks_permission:
        raise usage(f"agent {name} never asks for a permission", "leave --permissions out")
    if request.model is not None and not spec.takes_model:
        raise usage(f"agent {name} takes no model", "leave -m out")
    _check_kept(request, name, adapter, services)


async def _check_budget(
    request: StartRequest, name: str, adapter: Adapter, services: Services
) -> None:
    """What cannot be known cannot be limited."""
    spec, limits = adapter.spec, request.limits
    if limits.tokens is not None and spec.takes_argv:
        raise usage(f"agent {name} counts no tokens", "leave --max-tokens out")
    if limits.cost_usd is None or spec.reports_cost:
        return
    model = request.model or _instance_model(name, services)
    provider, named = served_by(model, request.provider, spec.pricing)
    if provider and named:
        at_ms = time.time_ns() // 1_000_000
        if await price_of(provider, named, ONE_TOKEN, at_ms, services.python) is not None:
            return
    raise usage(
        f"agent {name} tells no cost, and there is no price for"
        f" {f'model {model}' if model else 'a model that is not named'}"
        f"{f' of {provider}' if provider else ''}: its cost cannot be limited",
        "name a model that has a price, with its provider (-m, --provider), or limit its tokens",
    )


def _check_kept(request: StartRequest, name: str, adapter: Adapter, services: Services) -> None:
    spec = adapter.spec
    if request.as_agent is not None and not spec.takes_agent:
        raise usage(f"agent {name} has no agents of its own", "leave --as out")
    if request.keep and not spec.keeps:
        able = sorted(name for name, other in services.adapters.items() if other.spec.keeps)
        raise usage(
            f"agent {name} takes one prompt only, so its run cannot be kept",
            f"leave --keep out, or use one of {', '.join(able)}",
        )


def _profile(request: StartRequest, services: Services) -> str:
    profile = request.profile or services.config.profile
    if profile not in PROFILES:
        known = ", ".join(PROFILES)
        raise usage(f"this version has no profile {profile!r}", f"it has {known}")
    return profile


async def _repository(request: StartRequest, services: Services) -> FoundRepository:
    try:
        found = await services.workers.inspect(request.dir)
    except RepoError as error:
        if error.name != NOT_A_REPOSITORY:
            raise RpcError("InvalidParams", error.message, error.hint) from error
        raise usage(
            f"{request.dir} is in no git repository",
            "make one (git init and a first commit), or name one with -C DIR",
            reason=NOT_A_REPOSITORY,
        ) from error
    if found.refused is not None:
        raise usage(
            f"{found.toplevel} cannot be worked on by this version: {found.refused}",
            "use a clone without it",
            reason="unsupported_repository",
        )
    return found


async def _base(request: StartRequest, found: FoundRepository, services: Services) -> str:
    if request.base is None:
        if found.head is None:
            raise usage(
                f"{found.toplevel} has no commit yet",
                "commit something first: git commit --allow-empty",
            )
        return found.head
    try:
        return await services.workers.resolve(found.common_dir, request.base)
    except RepoError as error:
        raise usage(f"no commit is named {request.base!r}: {error.message}", error.hint) from error


def _task_name(request: StartRequest, run: str) -> str:
    if request.task is None:
        return ids.task_from_prompt(request.prompt or " ".join(request.argv), run)
    fault = ids.task_name_fault(request.task)
    if fault is not None:
        raise usage(f"{request.task!r} cannot name a task: {fault}")
    return request.task


def _environment(
    request: StartRequest, name: str, adapter: Adapter, services: Services
) -> tuple[dict[str, str], dict[str, str]]:
    """The variables the run may use and where each came from: request, configuration, daemon."""
    instance = services.config.agents.get(name)
    layers = (
        ("daemon", services.environment),
        ("configuration", dict(instance.env) if instance else {}),
        ("request", request.env),
    )
    found: dict[str, str] = {}
    sources: dict[str, str] = {}
    for source, layer in layers:
        found.update(layer)
        sources.update({key: source for key in layer if key in adapter.spec.environment})
    if instance and instance.home:
        found["HOME"] = instance.home
    else:
        found["HOME"] = services.environment.get("HOME", "/")
    return found, sources


async def _program(
    name: str,
    adapter: Adapter,
    found: FoundRepository,
    services: Services,
    environment: Mapping[str, str],
) -> Program:
    try:
        return await trio.to_thread.run_sync(
            find_program, name, adapter, services, environment, found.toplevel
        )
    except ExecutableError as error:
        raise missing_program(services, name, adapter, error) from error


def _instance_model(name: str, services: Services) -> str | None:
    instance = services.config.agents.get(name)
    return instance.model if instance else None


def _title(request: StartRequest) -> str:
    text = request.title or request.prompt.strip() or " ".join(request.argv)
    return text.split("\n", 1)[0][:MAX_TITLE_CHARACTERS]


def _warnings(request: StartRequest, found: FoundRepository, task: Task) -> tuple[str, ...]:
    warnings = list(found.warnings)
    if found.uncommitted and not task.runs:
        changes = "change is" if found.uncommitted == 1 else "changes are"
        warnings.append(f"{found.uncommitted} uncommitted {changes} not in the base")
    if request.base is not None and task.runs:
        warnings.append(f"task {task.name} exists: its base stays {task.base[:12]}")
    return tuple(warnings)
