"""What a service manager hears while the daemon runs: how it is, and that its loop turns."""

from collections import Counter

import trio

from coachman.wire import RUN_STATES

from .runs.supervisor import Supervisor
from .service import Service

TELL_EVERY_S = 1.0


async def keep_alive(service: Service) -> None:
    """A sign of life twice per watchdog interval; a loop that hangs gives none and is ended."""
    if service.watchdog_s is None:
        return
    while True:
        service.tell(WATCHDOG=1)
        await trio.sleep(service.watchdog_s / 2)


async def tell_status(service: Service, supervisor: Supervisor) -> None:
    """Ready, and from then on how many runs are in which state, at most once a second."""
    if service.notify_path is None:
        return
    seen = supervisor.changes
    service.tell(READY=1, STATUS=summary(supervisor))
    while True:
        await supervisor.wait_for_change(seen)
        seen = supervisor.changes
        service.tell(STATUS=summary(supervisor))
        await trio.sleep(TELL_EVERY_S)


def summary(supervisor: Supervisor) -> str:
    """Such as ``3 runs: 2 active, 1 waiting``."""
    counts = Counter(run.view.state for run in supervisor.runs.values())
    told = ", ".join(f"{counts[state]} {state}" for state in RUN_STATES if counts[state])
    total = sum(counts.values())
    return f"{total} run{'' if total == 1 else 's'}: {told}" if total else "No runs"
