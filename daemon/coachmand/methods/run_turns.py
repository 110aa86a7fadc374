"""What steers a run: prompt it, interrupt it, lend to it, close it."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import optional

from coachman import results

from ..rpc.errors import RpcError
from ..rpc.params import must
from ..rpc.registry import Registry
from ..runs.control import inbox
from ..runs.control.turns import over
from ..runs.intake.request import KEY, are_words
from ..runs.intake.resumption import ResumeRequest
from .context import Context

# Of whatever starts a run.
REFUSALS_OF_STARTS = (
    "NotFound",
    "Conflict",
    "Denied",
    "AgentFailed",
    "BoundaryUnavailable",
    "Degraded",
)


@frozen
class PromptParams:
    """Another prompt for a run that is kept. It waits for its turn and never pre-empts.

    One that has ended is resumed; ``env`` lends values for that, as for a start. What is sent
    again with the same ``request_key`` is no other prompt.
    """

    run: str
    prompt: str
    env: Mapping[str, str] = field(factory=dict, repr=lambda env: repr(sorted(env)))
    request_key: str | None = field(default=None, validator=optional(KEY))
    dir: str | None = None


@frozen
class InterruptParams:
    """End the turn that runs (``turn``: this one or none), then ``prompt`` where there is one.

    Prompts that wait already are dropped unless ``keep_queue``. A prompt that is sent again with
    the same ``request_key`` is no other one, and ends no turn.
    """

    run: str
    prompt: str | None = None
    keep_queue: bool = False
    turn: int | None = None
    request_key: str | None = field(default=None, validator=optional(KEY))
    dir: str | None = None


@frozen
class LendParams:
    """What a run lacks since the daemon was restarted, from its caller's shell: in memory only."""

    run: str
    env: Mapping[str, str] = field(
        repr=lambda env: repr(sorted(env)),
        validator=must("names and values without NUL", lambda env: are_words(sum(env.items(), ()))),
    )
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
        summary="Give a kept run another prompt, durable before the answer; resume an ended one.",
        errors=REFUSALS_OF_STARTS,
    )
    async def prompt(context: Context, params: PromptParams) -> dict[str, Any]:
        context.supervisor.acceptance.check_open("prompt")
        params = evolve(params, request_key=context.key(params.request_key))
        run = await context.steered(params.run, params.dir, "prompt")
        return await _prompt(context, run, params)

    @registry.method(
        "run.interrupt",
        params=InterruptParams,
        result=results.Interrupted,
        summary="End the turn that runs, then go on with a prompt.",
        errors=("NotFound", "Conflict"),
    )
    async def interrupt(context: Context, params: InterruptParams) -> dict[str, Any]:
        run = await context.steered(params.run, params.dir, "interrupt")
        key = context.key(params.request_key) if params.prompt is not None else None
        asked = (params.prompt, params.keep_queue, params.turn, key)
        return await _ask(context, run, "interrupt", *asked)

    @registry.method(
        "run.lend",
        params=LendParams,
        result=results.Lent,
        summary="Give a run the variables that it lacks since the daemon was restarted.",
        errors=("NotFound", "Conflict"),
    )
    async def lend(context: Context, params: LendParams) -> dict[str, Any]:
        run = await context.run(params.run, params.dir)
        return await _ask(context, run, "lend to", dict(params.env))

    @registry.method(
        "run.close",
        params=CloseParams,
        result=results.Closed,
        summary="End runs once their turn is over and nothing waits; ended ones stay as they are.",
        errors=("NotFound",),
    )
    async def close(context: Context, params: CloseParams) -> dict[str, Any]:
        runs = [await context.steered(name, params.dir, "close") for name in params.runs]
        return {"runs": [await _close(context, run) for run in runs]}


async def _prompt(context: Context, run: str, params: PromptParams) -> dict[str, Any]:
    try:
        if not await _was_resumed(context, run, params.request_key):
            told = await _ask(context, run, "prompt", params.prompt, params.request_key)
            return {**told, "resumed": False}
    except RpcError as refusal:
        if (refusal.data["detail"] or {}).get("state") != "ended":
            raise
    if params.request_key is not None:
        keys = (await context.supervisor.view_of(run)).prompt_keys
        if params.request_key in keys:
            return _was_told(run, keys[params.request_key])
    request = ResumeRequest(run, params.prompt, params.env, request_key=params.request_key)
    record, new = await context.supervisor.resume(request, context.caller)
    living = context.supervisor.runs.get(record.run)
    waits = living is not None and living.view.state == "queued"
    return {
        "run": record.run,
        "handle": record.handle,
        "state": living.view.state if living else "ended",
        "prompt": 1,
        "turn": 1,
        "ahead": 0,
        "waits_for": "place" if waits and context.services.admission.is_full else None,
        "resumed": True,
        "new": new,
    }


async def _was_resumed(context: Context, run: str, request_key: str | None) -> bool:
    """Whether ``run`` is what this very prompt resumed: a task's name means its newest run."""
    if request_key is None:
        return False
    record = await context.supervisor.record_of(run)
    return record.session is not None and record.request_key == request_key


def _was_told(run: str, number: int) -> dict[str, Any]:
    told = {"run": run, "handle": run[-5:], "state": "ended", "prompt": number, "turn": None}
    return {**told, "ahead": 0, "waits_for": None, "resumed": False, "new": False}


_MESSAGES: dict[str, Any] = {
    "prompt": inbox.PromptAsked,
    "interrupt": inbox.InterruptAsked,
    "lend to": inbox.Lent,
}


async def _ask(context: Context, run: str, verb: str, *members: Any) -> dict[str, Any]:
    """Ask a living run for something. Raises RpcError Conflict where it has ended."""
    living = context.supervisor.runs.get(run)
    if living is None or living.view.state == "ended":
        raise over(run[-5:], verb, "ended")
    context.supervisor.leases.check(run, context, verb)
    reply = inbox.Reply()
    living.post(_MESSAGES[verb](context.who(), reply, *members))
    answer = await reply.wait()
    return {"run": run, "handle": run[-5:], "state": living.view.state, **answer}


async def _close(context: Context, run: str) -> dict[str, Any]:
    living = context.supervisor.runs.get(run)
    if living is None or living.view.state == "ended":
        return {"run": run, "handle": run[-5:], "state": "ended", "already": True}
    context.supervisor.leases.check(run, context, "close")
    reply = inbox.Reply()
    living.post(inbox.CloseAsked(context.who(), reply))
    answer = await reply.wait()
    return {"run": run, "handle": run[-5:], "state": living.view.state, **answer}
