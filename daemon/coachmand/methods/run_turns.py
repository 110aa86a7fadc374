"""The turns of a run: prompt it, interrupt it, close it."""

from typing import Any

from attrs import frozen

from coachman import results

from ..rpc.registry import Registry
from ..runs import inbox
from ..runs.turns import over
from .context import Context


@frozen
class PromptParams:
    """Another prompt for a run that is kept. It waits for its turn and never pre-empts."""

    run: str
    prompt: str
    dir: str | None = None


@frozen
class InterruptParams:
    """End the turn that runs (``turn``: this one or none), then ``prompt`` where there is one.

    Prompts that wait already are dropped unless ``keep_queue``.
    """

    run: str
    prompt: str | None = None
    keep_queue: bool = False
    turn: int | None = None
    dir: str | None = None


@frozen
class CloseParams:
    """Runs to end once they have nothing more to do."""

    runs: tuple[str, ...]
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add the methods."""

    @registry.method(
        "run.prompt",
        params=PromptParams,
        result=results.Prompted,
        summary="Give a kept run another prompt: queued, and durable before the answer.",
        errors=("NotFound", "Conflict"),
    )
    async def prompt(context: Context, params: PromptParams) -> dict[str, Any]:
        run = await context.run(params.run, params.dir)
        return {**await _ask(context, run, "prompt", params.prompt), "resumed": False}

    @registry.method(
        "run.interrupt",
        params=InterruptParams,
        result=results.Interrupted,
        summary="End the turn that runs, then go on with a prompt.",
        errors=("NotFound", "Conflict"),
    )
    async def interrupt(context: Context, params: InterruptParams) -> dict[str, Any]:
        run = await context.run(params.run, params.dir)
        return await _ask(context, run, "interrupt", params.prompt, params.keep_queue, params.turn)

    @registry.method(
        "run.close",
        params=CloseParams,
        result=results.Closed,
        summary="End runs once their turn is over and nothing waits; ended ones stay as they are.",
        errors=("NotFound",),
    )
    async def close(context: Context, params: CloseParams) -> dict[str, Any]:
        runs = [await context.run(reference, params.dir) for reference in params.runs]
        return {"runs": [await _close(context, run) for run in runs]}


_MESSAGES: dict[str, Any] = {"prompt": inbox.PromptAsked, "interrupt": inbox.InterruptAsked}


async def _ask(context: Context, run: str, verb: str, *members: Any) -> dict[str, Any]:
    """Ask a living run for something. Raises RpcError Conflict where it has ended."""
    living = context.supervisor.runs.get(run)
    if living is None or living.view.state == "ended":
        raise over(run[-5:], verb, "ended")
    reply = inbox.Reply()
    living.post(_MESSAGES[verb](context.who(), reply, *members))
    answer = await reply.wait()
    return {"run": run, "handle": run[-5:], "state": living.view.state, **answer}


async def _close(context: Context, run: str) -> dict[str, Any]:
    living = context.supervisor.runs.get(run)
    if living is None or living.view.state == "ended":
        return {"run": run, "handle": run[-5:], "state": "ended", "already": True}
    reply = inbox.Reply()
    living.post(inbox.CloseAsked(context.who(), reply))
    answer = await reply.wait()
    return {"run": run, "handle": run[-5:], "state": living.view.state, **answer}
