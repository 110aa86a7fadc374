"""What this host's walls are made of, and whether they stand: looked at again while they do not."""

import time
from collections.abc import Mapping

import trio
from attrs import define, field, frozen

from coachman_sandbox.finder import Bwrap, BwrapMissing, find_bwrap
from coachman_sandbox.host import Host, read_host
from coachman_sandbox.probe import Probe, probe

from ..rpc.errors import RpcError

# Several starts that are refused at once look once.
LOOK_AGAIN_S = 2.0


@frozen
class Boundary:
    """What walls this host allows; ``probe`` says whether they stand."""

    bwrap: Bwrap | None
    probe: Probe
    host: Host

    def check(self) -> None:
        """Raise RpcError unless a run can have its walls."""
        if not self.probe.ok:
            text = f"cannot start: {self.probe.cause}"
            raise RpcError("BoundaryUnavailable", text, hint=self.probe.remedy)


def look(env: Mapping[str, str]) -> Boundary:
    """Look at the host. Without any walls, the daemon still answers what it knows. Blocks."""
    host = read_host(env)
    try:
        bwrap = find_bwrap(env)
    except BwrapMissing as error:
        return Boundary(None, Probe(False, str(error), "install bubblewrap"), host)
    return Boundary(bwrap, probe(bwrap), host)


@define
class Outlook:
    """The boundary as it was ``last`` seen by a daemon with this environment."""

    env: Mapping[str, str] = field(repr=False)
    last: Boundary
    _looked_s: float = field(factory=time.monotonic)
    _looking: trio.Lock = field(factory=trio.Lock, repr=False)

    async def now(self) -> Boundary:
        """One that stands is taken to stand; another may have been mended since."""
        async with self._looking:
            if not self.last.probe.ok and time.monotonic() - self._looked_s >= LOOK_AGAIN_S:
                self.last = await trio.to_thread.run_sync(look, self.env)
                self._looked_s = time.monotonic()
        return self.last
