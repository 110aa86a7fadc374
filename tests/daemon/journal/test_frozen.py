"""State that an older version left opens in this one, and every run of it ends truthfully."""

import json
from pathlib import Path

import pytest

import recovery_state as at
from daemon_process import DaemonProcess
from frozen_state import FROZEN, thaw

VERSIONS = sorted(path.name for path in FROZEN.iterdir() if path.is_dir())
ENDS_WITHIN_S = 180


@pytest.mark.parametrize("version", VERSIONS)
def test_state_of_an_older_version_opens_and_ends(version: str, state_dir: Path) -> None:
    """What had ended is as it was; what lived and lost its keeper is told, and nothing is left."""
    expected = thaw(FROZEN / version, state_dir)
    daemon = DaemonProcess(state_dir)
    before = {run: at.raw_lines(daemon, run) for run in expected}
    results = {
        path.parent.name: json.loads(path.read_bytes())
        for path in daemon.state.glob("runs/*/result.json")
    }
    daemon.start()
    try:
        with daemon.client() as client:
            waited = client.run.wait(list(expected), timeout_s=ENDS_WITHIN_S)
            found = {run: client.run.result(run) for run in expected}
            listed = {row["run"] for row in client.run.list(all=True)["runs"]}
            shown = [client.run.get(run)["state"] for run in expected]
    finally:
        daemon.tidy()

    assert waited["met"] == "ended"
    assert {run for run in expected if found[run]["outcome"] not in expected[run]} == set()
    assert listed == set(expected)
    assert set(shown) == {"ended"}
    for run, lines in before.items():
        assert at.raw_lines(daemon, run)[: len(lines)] == lines
        at.check_journal(daemon.events(run))
    for run, result in results.items():
        assert {name: found[run][name] for name in ("outcome", "final_message", "usage")} == {
            name: result[name] for name in ("outcome", "final_message", "usage")
        }
    assert not list((daemon.state / "live").iterdir())


def test_a_version_is_frozen_in_every_state_a_run_can_be_found_in() -> None:
    """Each has what a killed daemon leaves of runs that ended, and of those that had not."""
    for version in VERSIONS:
        journals = (FROZEN / version / "state" / "runs").glob("*/events.ndjson")
        last = {json.loads(line)["to"] for path in journals for line in _states(path)}

        assert {"active", "waiting", "parked", "ended"} <= last


def _states(path: Path) -> list[bytes]:
    return [line for line in path.read_bytes().splitlines() if b'"type":"run.state"' in line]
