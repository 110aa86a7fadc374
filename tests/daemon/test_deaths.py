"""Twenty deaths of daemon, keeper and agent: nothing is orphaned, lost or untrue."""

import random
from itertools import count
from pathlib import Path

from crash_storm import CrashStorm
from daemon_process import DaemonProcess, make_repository

# One of each stretch of a run's life; `scripts/soak crash` goes through all, many times.
PLACES = (
    "start.recorded",
    "prepare.placed",
    "attempt.intended",
    "attempt.launched",
    "input.recorded",
    "output.read",
    "journal.written",
    "permission.answered",
    "prompt.recorded",
    "run.parked",
    "turn.recorded",
    "end.finished",
    "end.recorded",
    "disk.renamed",
    "keeper.gate",
    "keeper.taken",
    "keeper.synced",
    "daemon",
    "keeper",
    "agent",
)


def test_twenty_deaths_are_survived(daemon: DaemonProcess, state_dir: Path) -> None:
    """Whoever dies and wherever, what was seen and promised stays true, and every run ends."""
    numbers = count()
    make = lambda: make_repository(state_dir / f"repo-{next(numbers)}")  # noqa: E731
    storm = CrashStorm(daemon, make, random.Random(20))
    for place in PLACES:
        storm.strike(place)

    assert storm.found == {}, storm.table()
    # Whether a moment still meets somebody alive is chance, but every named step was met.
    assert {place for place in PLACES if "." in place} <= set(storm.kills), storm.table()
