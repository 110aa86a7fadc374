"""What a handler gets: its connection and the daemon behind it."""

import os
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import trio
from attrs import define, field

from ..rpc.peer import Peer
from ..rpc.registry import Registry
from ..runs.leases import Lease
from ..runs.references import resolve
from ..runs.services import Services
from ..runs.supervisor import Supervisor


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
    started_s: float = field(factory=time.monotonic)


@define(eq=False)
class Context:
    """One connection's context."""

    daemon: Daemon
    peer: Peer
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
        """The id of the run that the caller means."""
        return await resolve(self.supervisor, reference, directory)

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
