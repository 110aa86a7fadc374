"""Every call of the disk refused once: `scripts/soak disk`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon_process import DaemonProcess
from failing_disk import FailingDisk

pytestmark = pytest.mark.soak


@pytest.fixture
def idle(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon that was not started yet."""
    process = DaemonProcess(state_dir)
    yield process
    process.tidy()


@pytest.mark.parametrize("action", ["eio", "enospc", "short"])
@pytest.mark.parametrize("calls", ["disk.*", "keeper.disk.*"])
def test_whatever_call_is_refused_the_state_is_the_old_or_the_new(
    idle: DaemonProcess, repo: Path, calls: str, action: str
) -> None:
    """For N = 1, 2, … until a run meets no refusal: no lost run, no stuck one, no traceback."""
    disk = FailingDisk(idle, repo)
    calls = calls.replace("*", "write") if action == "short" else calls
    clean = disk.loop(calls, action)
    print(f"{calls} {action}: clean at {clean}")
    print(disk.table())
    assert clean > 5
