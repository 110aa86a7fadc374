"""``run.start`` and ``run.resume``: what was decided for a run that begins."""

from typing import cast

from attrs import evolve

from coachman import results

from ..rpc.registry import Registry
from ..runs.facts.record import Record
from ..runs.intake.request import StartRequest
from ..runs.intake.resumption import ResumeRequest
from .context import Context
from .run_turns import REFUSALS_OF_STARTS


def register(registry: Registry) -> None:
    """Add these methods."""

    @registry.method(
        "run.start",
        params=StartRequest,
        result=results.RunStarted,
        summary="Start a run of an agent in a task's worktree.",
        errors=REFUSALS_OF_STARTS,
        descriptors=True,
    )
    async def start(context: Context, params: StartRequest) -> results.RunStarted:
        return await _start(context, params)

    @registry.method(
        "run.resume",
        params=ResumeRequest,
        result=results.RunStarted,
        summary="Start a run that goes on in the session of one that has ended.",
        errors=REFUSALS_OF_STARTS,
    )
    async def resume(context: Context, params: ResumeRequest) -> results.RunStarted:
        run = await context.steered(params.run, params.dir, "resume")
        key = context.key(params.request_key)
        request = evolve(params, run=run, dir=None, request_key=key)
        record, new = await context.supervisor.resume(request, context.caller)
        return _started(context, record, new, dry_run=False)


async def _start(context: Context, params: StartRequest) -> results.RunStarted:
    request = evolve(params, request_key=context.key(params.request_key))
    if not params.dry_run:
        record, new = await context.supervisor.start(request, context.caller)
        return _started(context, record, new, dry_run=False)
    record, compiled = await context.supervisor.rehearse(request, context.caller)
    told = _started(context, record, new=False, dry_run=True)
    # A run that asks over its own socket is told of no place of the host.
    return {**told, "compiled": cast("results.Compiled", compiled)} if not context.caller else told


def _started(context: Context, record: Record, new: bool, dry_run: bool) -> results.RunStarted:
    living = context.supervisor.runs.get(record.run)
    executable = record.executable
    return {
        "run": record.run,
        "handle": record.handle,
        "task": record.task,
        "state": living.view.state if living else "ended" if not dry_run else "queued",
        "new": new,
        "worktree": record.worktree,
        "evidence_dir": str(context.services.state.run(record.run)),
        "effective": {
            "agent": record.agent,
            "model": record.model,
            "effort": record.effort,
            "profile": record.profile,
            "inherits": record.walls.base,
            "native": record.native,
            "permissions": record.permissions,
            "network": record.network,
            "hosts": list(record.reaches),
            "agent_version": executable.version if executable else None,
            "executable": executable.path if executable else None,
        },
        "deadlines": {"wall": record.wall.epoch_ms},
        "base": record.repository.base,
        "continuing": record.continuing,
        "uncommitted_left_out": record.repository.uncommitted,
        "policy_digest": record.policy_digest,
        "warnings": list(record.warnings),
        "dry_run": dry_run,
        "keep": record.keep,
        "resumed_from": record.resumed_from,
    }
