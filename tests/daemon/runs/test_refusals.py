"""The disk refuses one call: a start, a run or a daemon fails by name, and nothing stays behind.

`scripts/soak disk` refuses every call there is; these are one of each kind.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import coachman
import recovery_state as at
from coachmand import failpoints
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


@pytest.mark.parametrize("write", [4, 5, 6])
def test_what_a_keeper_stored_only_half_of_is_told_whole_and_once(
    disk: FailingDisk, write: int
) -> None:
    """A record of what was said or told that took half and then no more is written over."""
    assert disk.once(f"keeper.disk.write:short@{write}")
    assert disk.outcomes == {"succeeded (end_turn)": 2}


def test_logs_that_may_not_be_on_the_disk_make_a_run_lost(disk: FailingDisk) -> None:
    """A keeper's sync that failed is not tried again: nobody knows what the agent said."""
    assert disk.once("keeper.disk.sync:eio@1")
    assert disk.outcomes == {"lost (storage_failed)": 1}


def test_a_journal_that_may_not_be_on_the_disk_makes_a_run_lost(disk: FailingDisk) -> None:
    """Each sync refused from one on, the daemon degrades; the next one tells how runs ended."""
    # Which sync is whose changes with what is synced: within these a run begins and ends.
    for first in (14, 17, 20):
        assert disk.once(f"disk.sync:eio@{first}+")
    lost = {"lost (storage_failed)", "lost (keeper_lost)"}
    assert lost & set(disk.outcomes)
    assert set(disk.outcomes) <= {*lost, "failed (start_failed)", "succeeded (end_turn)"}


@pytest.mark.parametrize(
    "step", ["start.recorded", "start.in_task", "journal.synced", "start.queued"]
)
def test_a_start_that_was_refused_is_never_carried_on(
    state_dir: Path, repo: Path, step: str
) -> None:
    """Wherever the disk refuses it, neither this daemon nor the next one knows of such a run."""
    daemon = DaemonProcess(state_dir, {failpoints.VARIABLE: f"{step}:eio@1"}).start()
    try:
        with pytest.raises(coachman.CoachmanError):
            at.start(daemon, repo, "write a.txt x", task="t1")
        left = [*(daemon.state / "live").iterdir(), *(daemon.state / "runs").iterdir()]
        del daemon.env[failpoints.VARIABLE]
        daemon.restart()
        with daemon.client() as client:
            known = client.run.list()["runs"]
        result = at.result(daemon, at.start(daemon, repo, "write b.txt x", task="t1"))

        assert (left, known) == ([], [])
        assert [change["path"] for change in result["changed_files"]] == ["b.txt"]
    finally:
        daemon.tidy()
