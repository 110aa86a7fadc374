"""What this host's walls are made of, and whether they stand: looked at again while they do not."""

import time
from collections.abc import Mapping

import trio
from attrs import define, field, frozen

from coachman_sandbox.causes import no_bwrap
from coachman_sandbox.finder import Bwrap, BwrapMissing, find_bwrap
from coachman_sandbox.host import Host, read_host
from coachman_sandbox.machine import Machine, read_machine
from coachman_sandbox.probe import NEEDS, Need, Probe, probe_all

from ..rpc.errors import RpcError

# Several starts that are refused at once look once.
LOOK_AGAIN_S = 2.0
DOCTOR = ("coachman", "doctor")


@frozen
class Boundary:
    """What walls this host allows; ``probes`` say for each need of a run whether they stand."""

    bwrap: Bwrap | None
    probes: Mapping[Need, Probe]
    host: Host
    machine: Machine

    @property
    def probe(self) -> Probe:
        """Whether every run can have its walls: what the most demanding ones would be told."""
        return self.probes[NEEDS[-1]]

    def check(self, need: Need) -> None:
        """Raise RpcError unless a run that needs no more can have its walls."""
        found = self.probes[need]
        if not found.ok:
            text = f"cannot start: {found.cause}"
            raise RpcError("BoundaryUnavailable", text, hint=found.remedy, next=[DOCTOR])


def look(env: Mapping[str, str]) -> Boundary:
    """Look at the host. Without any walls, the daemon still answers what it knows. Blocks."""
    host, machine = read_host(env), read_machine(env)
    try:
        bwrap = find_bwrap(env)
    except BwrapMissing as error:
        return Boundary(None, dict.fromkeys(NEEDS, no_bwrap(error, machine)), host, machine)
    return Boundary(bwrap, probe_all(bwrap, machine), host, machine)


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
