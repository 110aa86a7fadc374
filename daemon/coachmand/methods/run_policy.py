"""``run.policy``: what the boundary of one run was compiled to."""

from typing import cast

import trio
from attrs import frozen

from coachman import results

from ..evidence import ids
from ..evidence.rundir import RunDirectory
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.preparing import compiled
from .context import Context


@frozen
class PolicyParams:
    """One run."""

    run: str
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add this method."""

    @registry.method(
        "run.policy",
        params=PolicyParams,
        result=results.RunPolicy,
        summary="What a run's boundary was compiled to: policy, arguments, caps, digests.",
        errors=("NotFound", "Conflict"),
    )
    async def policy(context: Context, params: PolicyParams) -> results.RunPolicy:
        run = await context.run(params.run, params.dir)
        directory = RunDirectory(context.services.state.run(run))
        found = await trio.to_thread.run_sync(compiled.read, directory)
        handle = ids.handle_of(run)
        if found is None:
            raise RpcError(
                "Conflict",
                f"cannot show the policy of {handle}: none is on record",
                "a run has one from when its agent is about to start; earlier versions kept none",
                detail={"reason": "no_policy"},
            )
        return cast("results.RunPolicy", {**found, "run": run, "handle": handle})
