"""``run.*``: start, look at, wait for and end runs."""

from collections.abc import Mapping
from typing import Any, Literal

import trio
from attrs import asdict, field, frozen

from coachman import records, results
from coachman.wire import LIST_ROWS, LOG_LINES

from ..evidence.rundir import RunDirectory
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.control import inbox
from ..runs.facts.record import Record
from ..runs.following import waiting
from ..runs.following.lists import Filter, list_runs, with_batch
from ..runs.intake.resumption import why_not
from ..runs.reading.attention import attention_of
from ..runs.reading.summary import summary_of
from ..runs.reading.transcript import transcript
from ..runs.reading.view import View
from ..runs.run import Run
from . import run_diff, run_policy, run_questions, run_start, run_turns
from .context import Context

PROMPT_CHARACTERS = 8192


@frozen
class RunParams:
    """A run by id, handle, prefix, task or @; ``dir`` is the caller's directory."""

    run: str
    dir: str | None = None


@frozen
class ListParams:
    """Which runs to list: the living and those that ended within 12 h, unless told otherwise.

    ``batch`` is the label of that name. ``parent`` is the run that started them; ``ancestor`` one
    that they come from at any depth.
    """

    state: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    task: str | None = None
    agent: str | None = None
    labels: dict[str, str] = field(factory=dict)
    batch: str | None = None
    here: str | None = None
    since: int | None = None
    attention: bool | None = None
    parent: str | None = None
    ancestor: str | None = None
    all: bool = False
    limit: int = LIST_ROWS
    cursor: str | None = None


@frozen
class WaitParams:
    """``attention`` is met by whatever needs a person, and each by the run's end as well.

    With ``idle`` the answer also comes once all that has not ended is parked and nothing waits
    for it, so that without a prompt or a close nothing would ever happen.
    """

    runs: tuple[str, ...]
    until: Literal["ended", "attention", "turn"] = "ended"
    any: bool = False
    timeout_s: float | None = None
    idle: bool = False
    dir: str | None = None


@frozen
class LogParams:
    """The last ``lines`` of the transcript, or those before ``cursor``."""

    run: str
    lines: int = LOG_LINES
    cursor: int | None = None
    dir: str | None = None


@frozen
class CancelParams:
    """Runs to end now."""

    runs: tuple[str, ...]
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""
    run_turns.register(registry)
    run_policy.register(registry)
    run_questions.register(registry)
    run_start.register(registry)

    @registry.method(
        "run.list", params=ListParams, result=results.RunPage, summary="Runs, newest first."
    )
    async def list_(context: Context, params: ListParams) -> results.RunPage:
        rows: Any
        given = asdict(params)
        labels = with_batch(params.labels, given.pop("batch"), "list")
        wanted = Filter(**{**given, "labels": labels})
        rows, older, cursor = await list_runs(context.supervisor, wanted, context.caller)
        return {"runs": rows, "older": older, "next_cursor": cursor}

    @registry.method(
        "run.get",
        params=RunParams,
        result=results.RunDetails,
        summary="Everything about one run.",
        errors=("NotFound",),
    )
    async def get(context: Context, params: RunParams) -> results.RunDetails:
        found: results.RunDetails = await _get(context, await context.run(params.run, params.dir))
        return found

    @registry.method(
        "run.result",
        params=RunParams,
        result=results.RunResult,
        summary="What came of a run that has ended.",
        errors=("NotFound", "Conflict"),
    )
    async def result(context: Context, params: RunParams) -> results.RunResult:
        run = await context.run(params.run, params.dir)
        found: results.RunResult = await _result(context, run)
        return found

    @registry.method(
        "run.wait",
        params=WaitParams,
        result=results.Waited,
        summary="Wait until runs have ended or need someone.",
        waits=True,
        errors=("NotFound",),
    )
    async def wait(context: Context, params: WaitParams) -> results.Waited:
        # A run that waits for itself would wait for ever.
        runs = [await context.steered(name, params.dir, "wait for") for name in params.runs]
        met: Any
        rows: Any
        met, rows = await waiting.wait(
            context.supervisor,
            runs,
            params.until,
            any_of=params.any,
            timeout_s=params.timeout_s,
            idle=params.idle,
        )
        return {"met": met, "runs": rows}

    run_diff.register(registry)

    @registry.method(
        "run.log",
        params=LogParams,
        result=results.Log,
        summary="A run's transcript: merged text, one line a tool.",
        errors=("NotFound",),
    )
    async def log(context: Context, params: LogParams) -> results.Log:
        run = await context.run(params.run, params.dir)
        path = RunDirectory(context.services.state.run(run)).journal
        found = await trio.to_thread.run_sync(transcript, path)
        before = len(found) if params.cursor is None else max(0, min(params.cursor, len(found)))
        first = max(0, before - max(1, params.lines))
        shown = [_line(entry) for entry in found[first:before]]
        return {"lines": shown, "truncated": first > 0, "next_cursor": first or None}

    @registry.method(
        "run.cancel",
        params=CancelParams,
        result=results.Cancelled,
        summary="End runs now; ended ones stay as they are.",
        errors=("NotFound",),
    )
    async def cancel(context: Context, params: CancelParams) -> results.Cancelled:
        runs = [await context.steered(name, params.dir, "cancel") for name in params.runs]
        return {"runs": [await _cancel(context, run) for run in runs]}


def _line(entry: Mapping[str, Any]) -> results.LogLine:
    return {
        "seq": entry["seq"],
        "ts": entry["ts"],
        "kind": entry["kind"],
        "text": entry["text"],
    }


async def _get(context: Context, run: str) -> Any:
    record = await context.supervisor.record_of(run)
    directory = RunDirectory(context.services.state.run(run))
    living = context.supervisor.runs.get(run)
    result = None if living else await trio.to_thread.run_sync(directory.read_result)
    if living is not None:
        summary = summary_of(record, living.view, living.held_until_ms)
        session = living.view.session
    else:
        summary, session = (result or {}).get("summary", {}), (result or {}).get("session")
    return {
        **summary,
        "session": session,
        "resumed_from": record.resumed_from,
        "queue": _queue(living.view) if living else [],
        "prompt": await _prompt(directory, living),
        "request": record.as_json(),
        "attempts": living.view.attempt if living else (result or {}).get("attempts", 0),
        "worktree": record.worktree,
        "evidence_dir": str(directory.path),
        "deadlines": living.timing.ends_at_ms() if living else {"wall": record.wall.epoch_ms},
        "usage": living.view.usage if living else (result or {}).get("usage"),
        "resumable": await _resumable(context, record, result) if result else None,
        "result": result,
    }


async def _prompt(directory: RunDirectory, living: Run | None) -> str:
    """The prompt's beginning, which of a living run is read once: threads wait in busy moments."""
    if living is not None and living.prompt_shown is not None:
        return living.prompt_shown
    prompt = await trio.to_thread.run_sync(directory.read_prompt, 1)
    shown = prompt[:PROMPT_CHARACTERS]
    if living is not None:
        living.prompt_shown = shown
    return shown


async def _resumable(
    context: Context, record: Record, result: Mapping[str, Any]
) -> records.Resumable:
    why = await trio.to_thread.run_sync(why_not, record, result, context.supervisor)
    return {"ok": why is None, "why": why}


def _queue(view: View) -> list[records.WaitingPrompt]:
    return [{"prompt": queued.number, "title": queued.title} for queued in view.queue]


async def _result(context: Context, run: str) -> Any:
    living = context.supervisor.runs.get(run)
    directory = RunDirectory(context.services.state.run(run))
    found = await trio.to_thread.run_sync(directory.read_result)
    if found is None or (living is not None and living.view.state != "ended"):
        state = living.view.state if living else "unknown"
        needs = attention_of(living.view) if living is not None else None
        asks = needs is not None and needs["kind"] in ("permission", "question")
        raise RpcError(
            "Conflict",
            f"cannot give the result: run {run[-5:]} is {state}",
            hint="it waits for an answer" if asks else "wait for it first",
            detail={"state": state},
            next=[["coachman", "permissions" if asks else _ends(state), run[-5:]]],
        )
    record = await context.supervisor.record_of(run)
    resumable = await _resumable(context, record, found)
    return {**found, "final_path": str(directory.final), "resumable": resumable}


def _ends(state: str) -> str:
    """What leads to a run's end: a parked one has to be closed."""
    return "close" if state == "parked" else "wait"


async def _cancel(context: Context, run: str) -> results.CancelledRun:
    living = context.supervisor.runs.get(run)
    if living is None or living.view.state == "ended":
        return {"run": run, "handle": run[-5:], "state": "ended", "already": True}
    reply = inbox.Reply()
    living.post(inbox.CancelAsked(context.who(), reply))
    answer = await reply.wait()
    state, already = living.view.state, answer["already"]
    return {"run": run, "handle": run[-5:], "state": state, "already": already}
