"""``lease.*``: have a run to oneself for a while."""

from attrs import field, frozen

from coachman import results

from ..rpc.params import must
from ..rpc.registry import Registry
from ..runs.control.turns import over
from .context import Context

MAX_TTL_S = 3600.0


@frozen
class ClaimParams:
    """Prompt a run alone for ``ttl_s`` seconds; to claim it again prolongs that."""

    run: str
    ttl_s: float = field(
        default=60.0,
        validator=must(
            f"a number of seconds above 0 and at most {MAX_TTL_S:.0f}",
            lambda ttl_s: 0 < ttl_s <= MAX_TTL_S,
        ),
    )
    dir: str | None = None


@frozen
class ReleaseParams:
    """Let others prompt the run again."""

    run: str
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "lease.claim",
        params=ClaimParams,
        result=results.LeaseClaimed,
        summary="Be the only connection that may prompt a run, until released, expired or gone.",
        errors=("NotFound", "Conflict"),
    )
    async def claim(context: Context, params: ClaimParams) -> results.LeaseClaimed:
        run = await context.run(params.run, params.dir)
        if not context.supervisor.lives(run):
            raise over(run[-5:], "claim", "ended")
        lease, new = context.claim(run, params.ttl_s)
        return {"run": run, "handle": run[-5:], "expires_at": lease.expires_ms, "new": new}

    @registry.method(
        "lease.release",
        params=ReleaseParams,
        result=results.LeaseReleased,
        summary="Give a run back before its time.",
        errors=("NotFound", "Conflict"),
    )
    async def release(context: Context, params: ReleaseParams) -> results.LeaseReleased:
        run = await context.run(params.run, params.dir)
        held = context.supervisor.leases.release(run, context)
        return {"run": run, "handle": run[-5:], "released": held}
