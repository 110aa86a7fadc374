"""``daemon.cleanup`` and ``daemon.reindex``: what ended runs keep on the disk."""

from typing import Any, Literal

import trio
from attrs import asdict, frozen

from coachman import results
from coachman.wire import OUTCOMES

from ..evidence.ids import handle_of
from ..evidence.index import Leftover
from ..indexing import as_rows, tell
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.tidying.chosen import chosen
from ..runs.tidying.cleanup import Cleaned, Wanted
from .context import Context

MAX_TASKS = 1000


@frozen
class CleanupParams:
    """Which ended runs: ``runs`` and ``tasks`` are named, ``all`` is any; the others narrow.

    A task's name among ``runs`` stands for the task. Where neither is named nor ``all`` is set,
    nothing is removed and the answer says what could go, as with ``dry_run``.
    """

    runs: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    older_than_s: float | None = None
    larger_than: int | None = None
    outcome: tuple[str, ...] = ()
    all: bool = False
    only: Literal["worktrees", "logs"] | None = None
    dry_run: bool = False
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add these methods."""

    @registry.method(
        "daemon.cleanup",
        params=CleanupParams,
        result=results.Cleanup,
        summary="Remove what ended runs left and is kept elsewhere, or tell what could go.",
        waits=True,
        errors=("NotFound",),
    )
    async def cleanup(context: Context, params: CleanupParams) -> results.Cleanup:
        wanted = await _wanted(context, params)
        supervisor = context.supervisor
        done = await supervisor.cleanup.run(wanted)
        found = await supervisor.retention.found(supervisor.runs)
        findings: list[Any] = [asdict(finding) for finding in found]
        return {
            "dry_run": wanted.dry_run,
            "bytes": sum(cleaned.bytes for cleaned in done),
            "tasks": [_shown(cleaned) for cleaned in done[:MAX_TASKS]],
            "truncated": len(done) > MAX_TASKS,
            "findings": findings,
        }

    @registry.method(
        "daemon.reindex",
        result=results.Reindexed,
        summary="Make the index of ended runs anew from their directories.",
        waits=True,
    )
    async def reindex(context: Context, params: Any) -> results.Reindexed:
        services = context.services
        rebuilt = await trio.to_thread.run_sync(services.index.rebuild, services.state)
        tell(rebuilt)
        rows: Any = as_rows(rebuilt)
        return {"runs": rebuilt.runs, "unreadable": rows}


async def _wanted(context: Context, params: CleanupParams) -> Wanted:
    for outcome in params.outcome:
        if outcome not in OUTCOMES:
            known = ", ".join(OUTCOMES)
            raise RpcError("InvalidParams", f"cannot clean up outcome {outcome!r}: choose {known}")
    runs, tasks = await chosen(context.supervisor, params.runs, params.tasks, params.dir)
    return Wanted(
        runs=runs,
        tasks=tasks,
        older_than_s=params.older_than_s,
        larger_than=params.larger_than or 0,
        outcomes=params.outcome,
        worktrees=params.only != "logs",
        logs=params.only != "worktrees",
        # A filter says which, not that: one that leaves too much must not cost anything.
        dry_run=params.dry_run or not (runs or tasks or params.all),
    )


def _shown(cleaned: Cleaned) -> results.CleanedTask:
    found = cleaned.found
    state: Any = cleaned.state
    return {
        "task": cleaned.task,
        "repo": cleaned.repo,
        "toplevel": cleaned.toplevel,
        "worktree": cleaned.worktree,
        "state": state,
        "why": cleaned.why,
        "hint": cleaned.hint,
        "bytes": cleaned.bytes,
        "worktree_bytes": found.bytes if found else 0,
        "home_bytes": cleaned.home_bytes,
        "log_bytes": cleaned.log_bytes,
        "ignored_files": found.ignored_files if found else 0,
        "ignored_bytes": found.ignored_bytes if found else 0,
        "differs": list(found.differs) if found else [],
        "commit": found.commit if found and state == "removed" else None,
        "salvage": cleaned.ref,
        "runs": [_run(run) for run in cleaned.runs],
    }


def _run(run: Leftover) -> results.CleanedRun:
    return {
        "run": run.run,
        "handle": handle_of(run.run),
        "outcome": run.outcome,
        "ended_at": run.ended_at,
        "log_bytes": run.log_bytes,
    }
