"""``permission.*``: the questions of all runs, and answering them once."""

from typing import Any

from attrs import frozen

from coachman import results

from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.control import inbox
from ..runs.facts.record import Record
from ..runs.reading.view import View
from ..runs.run import Run
from . import run_questions
from .context import Context


@frozen
class ListParams:
    """``pending`` False shows settled ones as well; without ``run``, those of living runs."""

    run: str | None = None
    pending: bool = True
    dir: str | None = None


@frozen
class AnswerParams:
    """One of ``option`` (an id that was offered) and ``kind`` (allow, deny, always, or in full)."""

    request: str
    run: str | None = None
    option: str | None = None
    kind: str | None = None
    message: str | None = None
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "permission.list",
        params=ListParams,
        result=results.PermissionPage,
        summary="What waits for somebody's answer, oldest first.",
        errors=("NotFound",),
    )
    async def list_(context: Context, params: ListParams) -> results.PermissionPage:
        supervisor = context.supervisor
        runs = [run.fixed.run for run in context.living()]
        if params.run is not None:
            runs = [await context.run(params.run, params.dir)]
        found: list[results.Permission] = []
        asked: list[results.Question] = []
        for run in runs:
            record, view = await supervisor.record_of(run), await supervisor.view_of(run)
            found += _rows(record, view, pending_only=params.pending)
            asked += run_questions.rows(record, view, pending_only=params.pending)
        return {
            "permissions": sorted(found, key=lambda row: row.get("requested_at") or 0),
            "questions": sorted(asked, key=lambda row: row["asked_at"]),
        }

    @registry.method(
        "permission.answer",
        params=AnswerParams,
        result=results.Answered,
        summary="Answer a question; the first answer wins.",
        errors=("NotFound", "Conflict"),
    )
    async def answer(context: Context, params: AnswerParams) -> results.Answered:
        if (params.option is None) == (params.kind is None):
            raise RpcError("InvalidParams", "cannot answer: name either an option or a kind")
        run = await _run_that_asks(context, params)
        reply = inbox.Reply()
        run.post(
            inbox.Answered(
                context.who(), reply, params.request, params.option, params.kind, params.message
            )
        )
        chosen = await reply.wait()
        return {
            "request": params.request,
            "run": run.fixed.run,
            "option": chosen["id"],
            "kind": chosen["kind"],
        }


def _rows(record: Record, view: View, *, pending_only: bool) -> list[results.Permission]:
    names = {"run": record.run, "handle": record.handle, "task": record.task}
    of = {**names, "agent": record.agent}
    # Members of a question that nobody asked (any more) are missing, which no literal can say.
    rows: list[Any] = [
        {**of, "state": "pending", "resolved": None, **asked.public()}
        for asked in view.pending.values()
    ]
    if not pending_only:
        rows += [_settled(of, request, dict(answer)) for request, answer in view.answered.items()]
    return rows


def _settled(of: dict[str, Any], request: str, answer: dict[str, Any]) -> dict[str, Any]:
    asked = answer.pop("asked")
    return {**of, "request": request, **asked, "state": "resolved", "resolved": answer}


async def _run_that_asks(context: Context, params: AnswerParams) -> Run:
    runs = context.supervisor.runs
    if params.run is not None:
        name = await context.run(params.run, params.dir)
        if name not in runs:
            raise RpcError(
                "Conflict",
                f"cannot answer {params.request}: run {name[-5:]} has ended",
                detail={"run": name},
            )
        return runs[name]
    asking = [
        run
        for run in runs.values()
        if params.request in run.view.pending or params.request in run.view.answered
    ]
    if len(asking) == 1:
        return asking[0]
    if asking:
        handles = ", ".join(run.fixed.handle for run in asking)
        text = f"cannot answer {params.request}: runs {handles} each ask that"
        raise RpcError("InvalidParams", text, hint="name the run")
    raise RpcError(
        "NotFound",
        f"cannot answer {params.request}: no living run asks that",
        hint="coachman permissions lists what is asked",
    )
