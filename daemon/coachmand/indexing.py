"""The index of ended runs as a daemon starts with it, and made anew without a daemon."""

import structlog

from .evidence.index import Index, Rebuilt
from .evidence.rundir import RunDirectory
from .evidence.state import StateDirectory
from .journal.log import last_g_of
from .journal.order import Order

log = structlog.get_logger("index")


def open_index(state: StateDirectory) -> Index:
    """The index; filled from the runs' directories where it is missing, old or damaged. Blocks."""
    index = Index(state.index)
    if index.is_new:
        tell(index.rebuild(state))
    return index


def order_of(state: StateDirectory, index: Index) -> Order:
    """The order of all events, behind every one that a living or an ended run has. Blocks."""
    greatest = index.last_g()
    for marker in state.live.iterdir():
        try:
            greatest = max(greatest, last_g_of(RunDirectory(state.run(marker.name)).journal))
        except (OSError, ValueError) as error:
            # It is told by name where the run is looked for; the clock is ahead of what it has.
            log.warning("run_unreadable", run=marker.name, why=str(error))
    return Order(greatest)


def reindex(state: StateDirectory) -> dict[str, object]:
    """Make the index anew while no daemon holds ``state``; what to tell about it. Blocks."""
    index = Index(state.index)
    try:
        rebuilt = index.rebuild(state)
    finally:
        index.close()
    tell(rebuilt)
    return {"runs": rebuilt.runs, "unreadable": as_rows(rebuilt)}


def tell(rebuilt: Rebuilt) -> None:
    """Log what was found, and by name what could not be read."""
    for run, why in rebuilt.unreadable.items():
        log.warning("run_unreadable", run=run, why=why)
    log.info("index_rebuilt", runs=rebuilt.runs, unreadable=len(rebuilt.unreadable))


def as_rows(rebuilt: Rebuilt) -> list[dict[str, str]]:
    """What could not be read, as the wire has it."""
    return [{"run": run, "why": why} for run, why in rebuilt.unreadable.items()]
