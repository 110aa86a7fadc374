"""A rehearsal of a run's sandbox: that it starts, and which of its caps the kernel holds."""

from pathlib import Path

from coachman.diagnosis import failed, ok, warning
from coachman.results import Diagnosis
from coachman.wire import EXIT_BOUNDARY
from coachman_sandbox.network import HOST_NETWORK, Network
from coachman_sandbox.policy import AgentAccess

from ..runs.services import Means
from .rehearsal import Rehearsed, rehearse
from .walls import AREA, default_need

UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
NEEDED = ("memory", "pids")


async def examined(means: Means) -> list[Diagnosis]:
    """Start a sandbox by a keeper, with the gate's listeners as a run has them."""
    need = default_need(means)
    if means.boundary.bwrap is None or not means.boundary.probes[need].ok:
        return []
    network = HOST_NETWORK if need != "network" else Network("gate")
    tried = await rehearse(means, means.environment, network, AgentAccess())
    if tried.why is not None:
        cause = f"a sandbox did not come through its rehearsal: {tried.why}"
        text = "the daemon's log, `coachman daemon logs`, may say more"
        return [failed(AREA, "rehearsal", cause, text, exit=EXIT_BOUNDARY)]
    return [_held(tried)]


def _held(tried: Rehearsed) -> Diagnosis:
    held = [name for name, is_held in tried.caps.items() if is_held]
    watched = [name for name in ("memory", "tasks") if not tried.caps.get(name)]
    if not watched:
        return ok(AREA, "caps", "the kernel holds memory and tasks of each run", {"held": held})
    cause = f"{' and '.join(watched)} of a run are only looked at every 2 s: {_why()}"
    about = {"held": held, "watched": watched}
    return warning(AREA, "caps", cause, remedy_of(_delegated()), about)


def _why() -> str:
    if not UNIFIED.exists():
        return "no cgroup of version 2 here"
    lacks = [name for name in NEEDED if name not in _delegated()]
    if lacks:
        return f"no {' or '.join(lacks)} controller is delegated to this user"
    return "the daemon is no service of the user manager, which would give each run a cgroup"


def remedy_of(delegated: list[str]) -> str:
    """What has the kernel hold the caps: pure."""
    if all(name in delegated for name in NEEDED):
        return "coachman daemon install, so that each run has a scope with its caps"
    return (
        "a systemd user manager that delegates memory and pids (Delegate=yes of user@.service), on"
        " cgroup version 2, and coachman daemon install"
    )


def _delegated() -> list[str]:
    """The controllers of the cgroup that is this user's own to divide."""
    try:
        ours = Path("/proc/self/cgroup").read_text()
        path = next(line[3:] for line in ours.splitlines() if line.startswith("0::"))
        root = Path("/sys/fs/cgroup", manager_of(path).lstrip("/"))
        return Path(root, "cgroup.controllers").read_text().split()
    except (OSError, StopIteration):
        return []


def manager_of(path: str) -> str:
    """``/user.slice/user-1000.slice/user@1000.service`` of a cgroup below or beside it; pure."""
    words = path.split("/")
    for index, word in enumerate(words):
        if word.startswith("user@"):
            return "/".join(words[: index + 1])
        if word.startswith("user-") and word.endswith(".slice"):
            uid = word.removeprefix("user-").removesuffix(".slice")
            return "/".join([*words[: index + 1], f"user@{uid}.service"])
    return path
