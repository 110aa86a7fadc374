"""What a handler gets: its connection and the daemon behind it."""

import hashlib
import os
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import trio
from attrs import define, field

from ..rpc.errors import RpcError
from ..rpc.peer import Peer
from ..rpc.registry import Registry
from ..runs.control.leases import Lease
from ..runs.following.references import resolve, resolve_among
from ..runs.run import Run
from ..runs.services import Services
from ..runs.supervisor import Supervisor
from .shared import Shared


@define
class Daemon:
    """The daemon as its methods see it. ``stop`` and ``restart`` leave runs to their keepers.

    ``greeted`` is told of each client that says hello; ``before`` is how the last daemon ended.
    """

    supervisor: Supervisor
    services: Services
    registry: Registry
    version: str
    build: str
    instance: str
    socket: str
    started_ms: int
    stop: Callable[[str, dict[str, Any]], None]
    restart: Callable[[], None]
    greeted: Callable[[], None]
    before: Any = None
    shared: Shared = field(factory=Shared)
    started_s: float = field(factory=time.monotonic)


@define(eq=False)
class Context:
    """One connection's context.

    ``caller`` is the run whose own socket it came over: it sees itself and what it started, and
    steers the latter. Without one it is the user, who sees and steers all.
    """

    daemon: Daemon
    peer: Peer
    caller: str | None = None
    client: dict[str, Any] | None = None
    subscriptions: dict[str, trio.CancelScope] = field(factory=dict)
    _numbers: Any = field(factory=lambda: count(1))
    _claims: bool = False

    @property
    def supervisor(self) -> Supervisor:
        return self.daemon.supervisor

    @property
    def services(self) -> Services:
        return self.daemon.services

    async def run(self, reference: str, directory: str | None) -> str:
        """The id of the run that the caller means, one that it sees. Raises RpcError."""
        if self.caller is not None:
            seen = await self.supervisor.families.seen_by(self.caller)
            return resolve_among(seen, reference, self.caller)
        return await resolve(self.supervisor, reference, directory)

    async def steered(self, reference: str, directory: str | None, verb: str) -> str:
        """The same of a run that the caller may steer: no run steers itself."""
        run = await self.run(reference, directory)
        if run == self.caller:
            raise RpcError(
                "Denied",
                f"cannot {verb} {run[-5:]}: it is the run that asks",
                hint="a run steers those that it started",
                detail={"fact": "run"},
            )
        return run

    def living(self) -> list[Run]:
        """The living runs that the caller sees."""
        runs = self.supervisor.runs
        if self.caller is None:
            return list(runs.values())
        own = [runs[self.caller]] if self.caller in runs else []
        return [*own, *self.supervisor.families.below(self.caller)]

    def key(self, request_key: str | None) -> str | None:
        """A request key as the caller's own: others may use the same for theirs."""
        if request_key is None or self.caller is None:
            return request_key
        return f"{self.caller} {hashlib.sha256(request_key.encode()).hexdigest()}"

    def new_subscription(self) -> str:
        """A name for a subscription, unique on this connection."""
        return f"s{next(self._numbers)}"

    def claim(self, run: str, ttl_s: float) -> tuple[Lease, bool]:
        """Have a run to this connection alone, for as long as that lasts."""
        leases = self.supervisor.leases
        if not self._claims:
            self._claims = True
            self.peer.on_close.append(lambda: leases.forget(lambda _, held: held.owner is self))
        return leases.claim(run, self, self.who(), ttl_s)

    def who(self) -> dict[str, Any]:
        """The caller, as a record of who decided something."""
        if self.caller is not None:
            user = f"run {self.caller[-5:]}"
            return {"resolver": "run", "run": self.caller, "user": user}
        name = (self.client or {}).get("name")
        uid = self.peer.credentials.uid
        user = "you" if uid == os.getuid() else f"uid {uid}"
        return {
            "resolver": "client",
            "client": name,
            "pid": self.peer.credentials.pid,
            "uid": uid,
            "user": f"{user} ({name})" if name else user,
        }
