"""What a run has run beside its agent leaves nothing behind when its keeper is killed."""

from collections.abc import Callable
from pathlib import Path

import pytest

import recovery_state as at
from coachmand import failpoints
from daemon_process import DaemonProcess
from recovery_storm import processes_of

# Whether a sandbox outlives its keeper is a matter of a millisecond: often enough to meet it.
RUNS = 6
KILLED = {failpoints.VARIABLE: "keeper.spawned:kill@1"}


def armed(daemon: DaemonProcess) -> None:
    """From here on every keeper is killed when it has just started its sandbox."""
    daemon.kill()
    daemon.env |= KILLED
    daemon.start()


def set_up(daemon: DaemonProcess, repo: Path) -> list[str]:
    """Runs whose setup is killed."""
    path = daemon.root / "config.toml"
    path.write_text(f'[repo."{repo}"]\nsetup = "sleep 300"\n')
    daemon.env["COACHMAN_CONFIG"] = str(path)
    armed(daemon)
    return [at.start(daemon, repo, "say done") for _ in range(RUNS)]


def checked(daemon: DaemonProcess, repo: Path) -> list[str]:
    """Runs whose check is killed."""
    runs = [at.start(daemon, repo, "sleep 3\nsay done", check="sleep 300") for _ in range(RUNS)]
    for run in runs:
        at.until_event(daemon, run, lambda event: event["type"] == "turn.started")
    armed(daemon)
    return runs


@pytest.mark.parametrize(("start", "outcome"), [(set_up, "failed"), (checked, "check_failed")])
def test_a_sandbox_beside_the_agent_ends_with_its_keeper(
    daemon: DaemonProcess,
    repo: Path,
    eventually: Callable[..., object],
    start: Callable[[DaemonProcess, Path], list[str]],
    outcome: str,
) -> None:
    """Its keeper is killed the moment it started it, before it would have died along."""
    runs = start(daemon, repo)
    outcomes = {at.result(daemon, run)["outcome"] for run in runs}

    assert outcomes == {outcome}
    assert eventually(lambda: processes_of(daemon.state, set(runs)) == [])
