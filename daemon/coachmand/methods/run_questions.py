"""What a run asks in words: its parent, or whoever watches, answers in words."""

from typing import Any, Literal, cast

from attrs import field, frozen
from attrs.validators import deep_iterable, optional

from coachman import results

from ..rpc.errors import RpcError
from ..rpc.params import must
from ..rpc.registry import Registry
from ..runs.control import inbox
from ..runs.control.turns import over
from ..runs.facts.record import Record
from ..runs.intake.request import KEY
from ..runs.reading.view import View
from ..runs.run import Run
from .context import Context

MAX_CHARACTERS = 16 * 1024
MAX_OPTIONS = 16
MAX_OPTION_CHARACTERS = 200


def _text(most: int) -> Any:
    return must(f"1 to {most} characters", lambda text: 0 < len(text.strip()) <= len(text) <= most)


@frozen
class AskParams:
    """A question of the run over whose own socket it comes; the answer is waited for.

    ``options`` are answers to choose from, though others may be given. ``timeout_s`` is at most
    how long permissions of the run wait, which is the default. Who asks again with the same
    ``request_key``, after a lost connection for one, gets the answer to the same question.
    """

    question: str = field(validator=_text(MAX_CHARACTERS))
    options: tuple[str, ...] = field(
        default=(),
        validator=[
            must(f"at most {MAX_OPTIONS} of them", lambda options: len(options) <= MAX_OPTIONS),
            deep_iterable(_text(MAX_OPTION_CHARACTERS)),
        ],
    )
    timeout_s: float | None = field(
        default=None, validator=optional(must("a number above 0", lambda limit: limit > 0))
    )
    request_key: str | None = field(default=None, validator=optional(KEY))


@frozen
class AnswerParams:
    """``question`` is its id; ``run`` whose it is, needed where several runs ask one of that id."""

    question: str
    answer: str = field(validator=_text(MAX_CHARACTERS))
    run: str | None = None
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add the methods."""

    @registry.method(
        "run.ask",
        params=AskParams,
        result=results.Asked,
        summary="Ask the run's parent, or whoever watches, and wait for the answer.",
        waits=True,
        errors=("Conflict", "Denied", "Degraded"),
    )
    async def ask(context: Context, params: AskParams) -> results.Asked:
        if context.caller is None:
            raise RpcError(
                "Denied",
                "cannot ask: only a run asks, over its own socket",
                hint="inside of a run that was started with --delegate, or by one that was",
            )
        run = _living(context, context.caller, "ask in")
        reply = inbox.Reply()
        key = context.key(params.request_key)
        asked = (params.question, params.options, params.timeout_s, key)
        run.post(inbox.QuestionAsked(context.who(), reply, *asked))
        return await _settled(context, run, await reply.wait())

    @registry.method(
        "run.answer",
        params=AnswerParams,
        result=results.QuestionAnswered,
        summary="Answer what a run asks, in words; the first answer wins.",
        errors=("NotFound", "Conflict"),
    )
    async def answer(context: Context, params: AnswerParams) -> results.QuestionAnswered:
        run = await _asking(context, params)
        reply = inbox.Reply()
        run.post(inbox.QuestionAnswered(context.who(), reply, params.question, params.answer))
        await reply.wait()
        return {"run": run.fixed.run, "handle": run.fixed.handle, "request": params.question}


def rows(record: Record, view: View, *, pending_only: bool) -> list[results.Question]:
    """The questions of a run as `permission.list` tells them."""
    names = {"run": record.run, "handle": record.handle, "task": record.task}
    of = {**names, "agent": record.agent}
    found: list[dict[str, Any]] = [
        {**of, "state": "pending", "resolved": None, **asked.public()}
        for asked in view.questions.values()
    ]
    for request, reply in view.replies.items() if not pending_only else ():
        resolved = {name: reply[name] for name in ("outcome", "answer", "by")}
        asked = {name: reply[name] for name in ("question", "options", "asked_at", "deadline")}
        found.append({**of, "request": request, "state": "resolved", "resolved": resolved, **asked})
    return cast("list[results.Question]", found)


async def _settled(context: Context, run: Run, request: str) -> results.Asked:
    """Wait until somebody, the deadline or the turn's end settled it."""
    while True:
        seen, view = context.supervisor.changes, run.view
        if (reply := view.replies.get(request)) is not None:
            outcome: Literal["answered", "expired", "withdrawn"] = reply["outcome"]
            told = {"outcome": outcome, "answer": reply["answer"], "by": reply["by"]}
            return cast("results.Asked", {"run": run.fixed.run, "request": request, **told})
        if request not in view.questions:
            raise over(run.fixed.handle, "ask in", view.state)
        await context.supervisor.wait_for_change(seen)


def _living(context: Context, name: str, verb: str) -> Run:
    run = context.supervisor.runs.get(name)
    if run is None or run.view.state == "ended":
        raise over(name[-5:], verb, "ended")
    return run


async def _asking(context: Context, params: AnswerParams) -> Run:
    if params.run is not None:
        name = await context.steered(params.run, params.dir, "answer")
        return _living(context, name, "answer")
    request = params.question
    found = [
        run
        for run in context.living()
        if run.fixed.run != context.caller
        and (request in run.view.questions or request in run.view.replies)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        handles = ", ".join(run.fixed.handle for run in found)
        text = f"cannot answer {request}: runs {handles} each ask that"
        raise RpcError("InvalidParams", text, hint="name the run")
    raise RpcError(
        "NotFound",
        f"cannot answer {request}: no living run asks that",
        hint="coachman permissions lists what is asked",
    )
