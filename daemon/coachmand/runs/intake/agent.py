"""Which agent a new run has, and whether that can do what is asked."""

import time
from collections.abc import Mapping

import trio

from coachman_adapters.conversation import Adapter
from coachman_sandbox.executables import ExecutableError

from ...evidence.pricing import price_of
from ..control.costs import served_by
from ..facts.record import Repository
from ..preparing.missing import missing_program, no_agent, unknown_agent
from ..preparing.program import Program, find_program
from ..services import Services
from .request import StartRequest, usage

ONE_TOKEN = {"input": 1, "total": 1}


def agent_of(request: StartRequest, services: Services) -> tuple[str, Adapter]:
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


def check_agent(request: StartRequest, name: str, adapter: Adapter, services: Services) -> None:
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
    if request.model is not None and not spec.takes_model:
        raise usage(f"agent {name} takes no model", "leave -m out")
    _check_kept(request, name, adapter, services)


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


async def check_budget(
    request: StartRequest, name: str, adapter: Adapter, services: Services
) -> None:
    """What cannot be known cannot be limited."""
    spec, limits = adapter.spec, request.limits
    if limits.tokens is not None and spec.takes_argv:
        raise usage(f"agent {name} counts no tokens", "leave --max-tokens out")
    if limits.cost_usd is None or spec.reports_cost:
        return
    model = request.model or instance_model(name, services)
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


def account(request: StartRequest, name: str, adapter: Adapter, services: Services) -> str:
    """Whose limits it shares: an agent's instance, and the provider as far as it is known."""
    prefix, slash, _ = (request.model or instance_model(name, services) or "").partition("/")
    provider = request.provider or (prefix if slash else adapter.spec.pricing) or ""
    return f"{name}/{provider}"


def instance_model(name: str, services: Services) -> str | None:
    instance = services.config.agents.get(name)
    return instance.model if instance else None


async def program_of(
    name: str,
    adapter: Adapter,
    repository: Repository,
    services: Services,
    environment: Mapping[str, str],
) -> Program:
    try:
        return await trio.to_thread.run_sync(
            find_program, name, adapter, services, environment, *repository.roots
        )
    except ExecutableError as error:
        raise missing_program(services, name, adapter, error) from error
