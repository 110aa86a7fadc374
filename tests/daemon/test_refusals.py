"""The disk refuses one call: a start, a run or a daemon fails by name, and nothing stays behind.

`scripts/soak disk` refuses every call there is; these are one of each kind.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon_process import DaemonProcess
from failing_disk import FailingDisk

POINTS = (
    "disk.write:eio@1",
    "disk.sync:eio@6",
    "disk.rename:eio@6",
    "disk.write:enospc@12",
    "disk.write:short@25",
    "disk.open:enospc@8",
    "keeper.disk.write:enospc@2",
    "keeper.disk.rename:eio@1",
)


@pytest.fixture
def disk(state_dir: Path, repo: Path) -> Iterator[FailingDisk]:
    process = DaemonProcess(state_dir)
    yield FailingDisk(process, repo)
    process.tidy()


@pytest.mark.parametrize("point", POINTS)
def test_whatever_is_refused_every_run_ends_truthfully(disk: FailingDisk, point: str) -> None:
    """Accepted runs end, refused ones left nothing, and no client saw how the daemon is made."""
    assert disk.once(point)


def test_logs_that_may_not_be_on_the_disk_make_a_run_lost(disk: FailingDisk) -> None:
    """A keeper's sync that failed is not tried again: nobody knows what the agent said."""
    assert disk.once("keeper.disk.sync:eio@1")
    assert disk.outcomes == {"lost (storage_failed)": 1}


def test_a_journal_that_may_not_be_on_the_disk_makes_a_run_lost(disk: FailingDisk) -> None:
    """Each sync refused from one on, the daemon degrades; the next one tells how runs ended."""
    assert disk.once("disk.sync:eio@16+")
    assert set(disk.outcomes) <= {"lost (storage_failed)", "lost (keeper_lost)"}
