"""The end of a run: its work recorded, its verdict found, its one terminal record written."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import asdict, evolve

from coachman.wire import FINAL_MESSAGE_BYTES

from ... import durable
from ...evidence import rawlogs
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry, decode, dump
from ...journal.log import Journal
from ..attempts.attempt import STDERR_TAIL_BYTES
from ..control import budgets
from ..control.timing import ENDING
from ..intake import inputs
from ..reading import decisions
from ..reading.summary import summary_of
from . import sentinel, verdict
from .product import Product

if TYPE_CHECKING:
    from ..reading.view import View
    from ..run import Run

log = structlog.get_logger("run")
ENDED_BY_REASON = {
    "cancelled": "cancel",
    **{which: which for which in ENDING},
    "keeper_lost": "keeper_lost",
    "replay_diverged": "replay_diverged",
    "start_failed": "start_failed",
    "prompt_damaged": "start_failed",
    "internal_error": "internal_error",
    "interrupt_unconfirmed": "interrupt",
    "no_progress": "no_progress",
    "disk_limit": "disk_limit",
}


async def conclude(run: "Run", product: Product) -> None:
    """Decide and write the end. ``run.ended`` in the journal is what counts."""
    found = verdict.decide(await _facts(run, product))
    if found.message is not None:
        found = evolve(found, message=run.journal.redactor.mask_text(found.message))
    if run.journal.redactor.longest:
        # Once masked, the logs cannot be replayed: that the attempt is over comes first.
        await run.journal.sync()
    write = run.services.storage.write
    await write(rawlogs.mask_run, run.directory.path, run.journal.redactor)
    reach("end.masked")
    if run.attempt is not None:
        await run.attempt.dismiss()
    await run.attempts.let_go()
    await run.record(run.turns.unsent())
    over = {"from": run.view.state, "to": "ended", "reason": found.outcome}
    ended = Entry(v.RUN_ENDED, _ended(run, product, found))
    await run.record([Entry(v.RUN_STATE, over), ended])
    reach("end.recorded")
    log.info("run_ended", run=run.fixed.run, outcome=found.outcome, stop_reason=found.stop_reason)
    await write_result(run, product)


async def write_result(run: "Run", product: Product) -> None:
    """Derive the result from what the journal says, and let the run go."""
    size = await trio.to_thread.run_sync(_size, run, product)
    told = final_message(run.journal, run.view.message_from)
    digest = await trio.to_thread.run_sync(_digest, told)
    result = _masked(run, result_of(run, product, size, digest))
    message = final_message(run.journal, run.view.message_from)
    write = run.services.storage.write
    await write(run.directory.write_result, result, message)
    reach("end.result_written")
    await write(run.services.index.put, [result["summary"]])
    reach("end.indexed")
    if run.fixed.sentinel_file is not None:
        text = sentinel.text_of(run.fixed.run, run.view)
        await write(sentinel.owe, run.services.state, run.fixed.run, run.fixed.sentinel_file, text)
        run.services.sentinels.add(run.fixed.run)
    await write(durable.remove, run.services.state.live / run.fixed.run)


def _masked(run: "Run", result: dict[str, Any]) -> dict[str, Any]:
    """Names of files are the agent's to choose."""
    redactor = run.journal.redactor
    return decode(redactor.mask(dump(result))) if redactor.longest else result


def _size(run: "Run", product: Product) -> dict[str, int]:
    """What the run takes on disk, in bytes: in all, and of that what only replay needed. Blocks."""
    logs = run.directory.log_bytes()
    return {"all": logs + run.directory.own_bytes() + product.artifact_bytes, "logs": logs}


def _digest(pieces: Iterator[str]) -> str:
    """The SHA-256 of what `final.md` is made of, in hex. Blocks."""
    digest = sha256()
    for piece in pieces:
        digest.update(piece.encode("utf-8", "replace"))
    return digest.hexdigest()


def final_message(journal: Journal, first_seq: int) -> Iterator[str]:
    """The last message, whole and as it was journaled: masked. Blocks."""
    after, offset = first_seq - 1, 0
    while first_seq:
        lines, offset = journal.read(after, offset)
        if not lines:
            return
        after = lines[-1].seq
        for event in (decode(line.data) for line in lines):
            if event["type"] == v.MESSAGE_CHUNK:
                yield event["text"]


async def _facts(run: "Run", product: Product) -> verdict.Facts:
    view, exit = run.view, run.end.exit or {}
    stderr = b""
    if view.attempt:
        segments = run.directory.segments(view.attempt, "stderr")
        stderr = await trio.to_thread.run_sync(rawlogs.tail, segments, STDERR_TAIL_BYTES)
    failure = run.end.failure or view.failure or exit.get("because")
    error = {"message": failure} if failure else view.turn_error
    return verdict.Facts(
        ended_by=_ended_by(run, exit),
        stop_reason=view.turn_stop_reason if view.turn_over else None,
        error=error,
        exit_code=exit.get("exit_code"),
        signal=exit.get("signal"),
        stderr=stderr.decode("utf-8", "replace"),
        has_message=bool(view.final_message.strip()),
        has_changes=bool(product.files or product.artifacts),
        has_answered=view.first_response_ms is not None,
        exit_status_decides=run.services.adapters[run.fixed.adapter].spec.exit_status_decides,
        denied=view.denied - view.denied_before,
        interrupted=view.turn > 0 and view.interrupted == view.turn,
        session=view.session,
        session_wanted=run.attempts.acting.session or view.first_session,
        check=view.check,
        has_spoken=view.spoke,
        over_budget=budgets.over(run, product.cost),
        missing=product.missing,
    )


# What a keeper ends an agent for, beside its time.
KEEPER_CAUSES = frozenset({"output_limit", "memory_limit", "task_limit", "gate"})


def _ended_by(run: "Run", exit: Mapping[str, Any]) -> str:
    if "lost" in exit:
        return str(exit["lost"])
    if exit.get("ended_by") == "deadline":
        return "wall"
    if exit.get("ended_by") in KEEPER_CAUSES:
        return str(exit["ended_by"])
    if run.end.failure is not None:
        return "start_failed"
    return ENDED_BY_REASON.get(run.view.reason or "", "agent")


def _ended(run: "Run", product: Product, found: verdict.Verdict) -> dict[str, Any]:
    view, exit = run.view, run.end.exit or {}
    message = view.final_message
    shown = _end_of(message)
    return {
        "outcome": found.outcome,
        "stop_reason": found.stop_reason,
        "error": {"message": found.message} if found.message else None,
        **({"resets_at": view.resets_at} if found.outcome == "limited" else {}),
        "exit": {"code": exit.get("exit_code"), "signal": exit.get("signal")},
        "usage": view.usage,
        "cost": product.cost,
        "changes": dict(product.totals),
        "commits": {"from": product.start, "to": product.commit},
        "tree": product.tree,
        "final_message": shown,
        "final_message_truncated": view.message_cut or len(shown) < len(message),
    }


def result_of(
    run: "Run", product: Product, size: Mapping[str, int], message_sha256: str
) -> dict[str, Any]:
    """The result as `result.json` holds it and `run.result` returns it."""
    record, view, redactor = run.fixed, run.view, run.journal.redactor
    message = redactor.mask_text(view.final_message)
    shown = _end_of(message)
    return {
        "run": record.run,
        "handle": record.handle,
        "task": record.task,
        "agent": record.agent,
        "agent_version": view.agent_version or (record.executable and record.executable.version),
        "executable": asdict(record.executable) if record.executable else None,
        "model": view.model or record.model,
        "effort": record.effort,
        "profile": record.profile,
        "permissions": record.permissions,
        "network": record.network,
        "session": view.session,
        "session_counters": view.session_counters,
        "parent": record.parent,
        "resumed_from": record.resumed_from,
        "outcome": view.outcome,
        "stop_reason": view.stop_reason,
        "error": view.error,
        "resets_at": view.resets_at if view.outcome == "limited" else None,
        "exit": view.exit and {k: view.exit.get(k) for k in ("exit_code", "signal", "ended_by")},
        "started_at": view.started_ms,
        "ended_at": view.ended_ms,
        "durations": _durations(run),
        "turns": view.turn,
        "attempts": view.attempt,
        "usage": view.usage,
        "cost": view.cost,
        "final_message": shown,
        "final_message_truncated": view.message_cut or len(shown) < len(message),
        "message_sha256": message_sha256,
        "changed_files": list(product.files),
        "changes": dict(product.totals),
        "commits": {"from": product.start, "to": product.commit},
        "tree": product.tree,
        # Of a run that did not succeed nobody knows whether its files are whole.
        "artifacts": [
            {**each, "partial": view.outcome != "succeeded"} for each in product.artifacts
        ],
        "inputs": inputs.shown(record),
        "check": view.check,
        "permissions_decided": {"allowed": view.allowed, "denied": view.denied},
        "network_decided": decisions.totals(view.noted),
        "environment": dict(record.environment),
        "worktree": record.worktree,
        "evidence_dir": str(run.directory.path),
        "base": record.repository.base,
        "policy_digest": record.policy_digest,
        "warnings": [*record.warnings, *product.warnings, *_warnings(view)],
        "bytes": dict(size),
        "summary": {
            **summary_of(record, view),
            "bytes": size["all"],
            "log_bytes": size["logs"],
            "cleaned": False,
        },
    }


def _warnings(view: "View") -> Iterator[str]:
    yield from view.faults
    if view.unread is not None:
        yield f"the agent's own account could not be read: {view.unread}"
    if view.unsent:
        prompts = "a prompt was" if view.unsent == 1 else f"{view.unsent} prompts were"
        yield f"{prompts} never given to the agent: the run ended first"
    if view.damaged:
        prompts = "a prompt was" if view.damaged == 1 else f"{view.damaged} prompts were"
        yield f"{prompts} never given to the agent: the file is not what was written"


def _end_of(message: str) -> str:
    """What of a long message is shown: its end says what came of it."""
    return message.encode("utf-8", "replace")[-FINAL_MESSAGE_BYTES:].decode("utf-8", "ignore")


def _durations(run: "Run") -> dict[str, float | None]:
    view, created = run.view, run.fixed.created_ms

    def between(start: int | None, end: int | None) -> float | None:
        return None if start is None or end is None else round((end - start) / 1000, 3)

    return {
        "total": between(created, view.ended_ms),
        "prepare": between(created, view.started_ms),
        "first_event": between(view.started_ms, view.first_event_ms),
        "first_response": between(view.started_ms, view.first_response_ms),
        "waiting": round(view.waiting_ms / 1000, 3),
    }
