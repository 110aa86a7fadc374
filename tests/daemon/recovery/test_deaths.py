"""Twenty deaths of daemon, keeper and agent: nothing is orphaned, lost or untrue."""

import random
from itertools import count
from pathlib import Path

import pytest

from crash_storm import CrashStorm
from daemon_process import DaemonProcess, make_repository

pytestmark = pytest.mark.long

# One of each stretch of a run's life; `scripts/soak crash` goes through all, many times.
STRETCHES = {
    "starting": ("start.recorded", "prepare.placed", "attempt.intended", "attempt.launched"),
    "talking": ("input.recorded", "output.read", "journal.written", "permission.answered"),
    "kept": ("prompt.recorded", "run.parked", "turn.recorded", "daemon"),
    "ending": ("end.finished", "end.recorded", "disk.renamed", "keeper.synced"),
    "keeping": ("keeper.gate", "keeper.taken", "keeper", "agent"),
}


@pytest.mark.parametrize("stretch", STRETCHES)
def test_deaths_are_survived(daemon: DaemonProcess, state_dir: Path, stretch: str) -> None:
    """Whoever dies and wherever, what was seen and promised stays true, and every run ends."""
    numbers = count()
    make = lambda: make_repository(state_dir / f"repo-{next(numbers)}")  # noqa: E731
    storm = CrashStorm(daemon, make, random.Random(stretch))
    for place in STRETCHES[stretch]:
        storm.strike(place)

    assert storm.found == {}, storm.table()
    # Whether a moment still meets somebody alive is chance, but every named step was met.
    named = {place for place in STRETCHES[stretch] if "." in place}
    assert named <= set(storm.kills), storm.table()
