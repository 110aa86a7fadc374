"""``permission.*``: the questions of all runs, and answering them once."""

from typing import Any

from attrs import asdict, frozen

from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs import inbox
from ..runs.run import Run
from .context import Context


@frozen
class ListParams:
    """``pending`` False shows those that are resolved as well, of the living runs."""

    run: str | None = None
    pending: bool = True
    dir: str | None = None


@frozen
class Listed:
    """{run, handle, task, agent, request, state, question, tool, options, deadline, …} each."""

    permissions: list[dict[str, Any]]


@frozen
class AnswerParams:
    """One of ``option`` (an id that was offered) and ``kind`` (allow, deny, always, or in full)."""

    request: str
    run: str | None = None
    option: str | None = None
    kind: str | None = None
    message: str | None = None
    dir: str | None = None


@frozen
class Answered:
    """What was chosen."""

    request: str
    run: str
    option: str
    kind: str


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "permission.list",
        params=ListParams,
        result=Listed,
        summary="Questions that wait for someone, oldest first.",
        errors=("NotFound",),
    )
    async def list_(context: Context, params: ListParams) -> Listed:
        runs = list(context.supervisor.runs.values())
        if params.run is not None:
            wanted = await context.run(params.run, params.dir)
            runs = [run for run in runs if run.fixed.run == wanted]
        found = [row for run in runs for row in _rows(run, params.pending)]
        return Listed(sorted(found, key=lambda row: row.get("requested_at") or 0))

    @registry.method(
        "permission.answer",
        params=AnswerParams,
        result=Answered,
        summary="Answer a question; the first answer wins.",
        errors=("NotFound", "Conflict"),
    )
    async def answer(context: Context, params: AnswerParams) -> Answered:
        if (params.option is None) == (params.kind is None):
            raise RpcError("InvalidParams", "cannot answer: name either an option or a kind")
        run = await _run_that_asks(context, params)
        reply = inbox.Reply()
        run.post(
            inbox.Answered(
                params.request, params.option, params.kind, params.message, context.who(), reply
            )
        )
        chosen = await reply.wait()
        return Answered(params.request, run.fixed.run, chosen["id"], chosen["kind"])


def _rows(run: Run, pending_only: bool) -> list[dict[str, Any]]:
    fixed = run.fixed
    of = {"run": fixed.run, "handle": fixed.handle, "task": fixed.task, "agent": fixed.agent}
    rows: list[dict[str, Any]] = [
        {**of, "state": "pending", "resolved": None, **_public(asdict(asked))}
        for asked in run.view.pending.values()
    ]
    if not pending_only:
        rows += [
            {**of, "request": request, "state": "resolved", "resolved": answer}
            for request, answer in run.view.answered.items()
        ]
    return rows


def _public(asked: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in asked.items() if not key.startswith("deadline_boot")}


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
