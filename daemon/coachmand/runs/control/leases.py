"""Who alone may prompt a run: one connection at a time, for a while, and never for good.

A lease is in memory only. It ends with its time, with the connection that holds it, with its run
and with the daemon, so that nobody who went away keeps others out.
"""

from collections.abc import Callable, Mapping
from typing import Any

import trio
from attrs import frozen

from ...rpc.errors import RpcError
from ..facts.clock import epoch_ms


@frozen
class Lease:
    """``owner`` is the connection that holds it, ``by`` who that is, as others are told."""

    owner: object
    by: Mapping[str, Any]
    until: float
    expires_ms: int


class Leases:
    """Leases by run."""

    def __init__(self) -> None:
        self._held: dict[str, Lease] = {}

    def __repr__(self) -> str:
        return f"<Leases of {len(self._held)} runs>"

    def claim(
        self, run: str, owner: object, by: Mapping[str, Any], ttl_s: float
    ) -> tuple[Lease, bool]:
        """Give the run to ``owner``, or prolong what it has; whether it is new.

        Raises RpcError Conflict where somebody else has it.
        """
        self.check(run, owner, "claim")
        new = self.holder(run) is None
        lease = Lease(owner, by, trio.current_time() + ttl_s, epoch_ms() + int(ttl_s * 1000))
        self._held[run] = lease
        return lease, new

    def release(self, run: str, owner: object) -> bool:
        """Give the run back; whether it was held. Raises RpcError Conflict as `claim` does."""
        self.check(run, owner, "release")
        return self._held.pop(run, None) is not None

    def holder(self, run: str) -> Lease | None:
        """The lease of a run, unless its time is over."""
        lease = self._held.get(run)
        if lease is not None and lease.until <= trio.current_time():
            del self._held[run]
            return None
        return lease

    def check(self, run: str, owner: object, verb: str) -> None:
        """Raise RpcError Conflict, naming the holder, where somebody else has the run."""
        lease = self.holder(run)
        if lease is None or lease.owner is owner:
            return
        left_s = max(0.0, round(lease.until - trio.current_time(), 3))
        raise RpcError(
            "Conflict",
            f"cannot {verb} {run[-5:]}: {_named(lease.by)} has it for {left_s:.0f} s more",
            hint="only who holds its lease may prompt it; cancel always passes",
            retryable=True,
            retry_after_s=left_s,
            detail={"by": dict(lease.by), "expires_at": lease.expires_ms},
            next=[["coachman", "show", run[-5:]]],
        )

    def forget(self, is_over: Callable[[str, Lease], bool]) -> None:
        """Drop the leases of which ``is_over(run, lease)`` says so."""
        self._held = {run: held for run, held in self._held.items() if not is_over(run, held)}


def _named(by: Mapping[str, Any]) -> str:
    return f"{by.get('client') or 'a client'}, pid {by.get('pid')},"
