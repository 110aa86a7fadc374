"""Deadlines of real runs: each ends its run at its time, says which it was, and is told before."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess

# Never early. How late an end begins is up to the machine, which other tests keep busy; the
# agents here would go on for minutes.
LATE_MS = 15_000


@pytest.fixture(autouse=True)
def nothing_unexpected(state_dir: Path) -> Iterator[None]:
    """No run had to be taken up again because carrying it failed."""
    yield
    assert "run_failed" not in (state_dir / "daemon.log").read_text()


def expired(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    """The line that tells of the deadline that ended the run."""
    [found] = live.of_type(daemon, run, "deadline.expired")
    return found


def began(daemon: DaemonProcess, run: str, type_: str = "turn.started") -> int:
    """When the first line of that type was written."""
    return int(live.of_type(daemon, run, type_)[0]["ts"])


@pytest.mark.parametrize(
    ("which", "prompt"),
    [
        ("stall", "say one\nsleep 300"),
        ("turn", "run sleep 300"),
        ("work", "say one\nsleep 300"),
        ("wall", "run sleep 300"),
    ],
)
def test_a_deadline_ends_its_run_at_its_time(
    daemon: DaemonProcess, repo: Path, which: str, prompt: str
) -> None:
    """Not earlier, as timed out, with its name as the reason, and warned of before."""
    run = at.start(daemon, repo, prompt, timeouts={f"{which}_s": 2})
    result = at.result(daemon, run)
    [warned] = live.of_type(daemon, run, "deadline.warned")

    assert (result["outcome"], result["stop_reason"]) == ("timed_out", which)
    assert which in result["error"]["message"]
    assert expired(daemon, run)["which"] == which
    due_ms = warned["deadline"]
    assert warned["which"] == which
    assert warned["seq"] < expired(daemon, run)["seq"]
    assert 0 <= expired(daemon, run)["ts"] - due_ms <= LATE_MS
    assert due_ms - began(daemon, run, "run.queued") <= 2000 + LATE_MS
    at.check_journal(daemon.events(run))


def test_a_tool_may_be_silent(daemon: DaemonProcess, repo: Path) -> None:
    """While a command runs, no word is expected of the agent."""
    run = at.start(daemon, repo, "run sleep 4\nsay done", timeouts={"stall_s": 3})
    result = at.result(daemon, run)

    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")


def test_a_program_may_be_silent_unless_it_was_told_not_to(
    daemon: DaemonProcess, repo: Path
) -> None:
    """It speaks no protocol in which it could say that it works."""
    argv = ["sh", "-c", "sleep 2; echo done"]
    run = at.start(daemon, repo, "", agent="command", argv=argv)
    told = at.start(daemon, repo, "", agent="command", argv=argv, timeouts={"stall_s": 1})

    with daemon.client() as client:
        assert client.run.get(run)["request"]["stall_s"] is None
    assert at.result(daemon, run)["outcome"] == "succeeded"
    assert at.result(daemon, told)["stop_reason"] == "stall"


def test_waiting_for_a_person_is_no_work(daemon: DaemonProcess, repo: Path) -> None:
    """An open question costs neither work nor turn nor stall; afterwards they go on."""
    limits = {"work_s": 4, "turn_s": 4, "stall_s": 3}
    run = at.start(daemon, repo, "write x.txt text\nsay done", permissions="ask", timeouts=limits)
    request = at.until_asked(daemon, run)
    with daemon.client() as client:
        client.run.wait([run], timeout_s=5)
        client.permission.answer(request, run=run, kind="allow")
    result = at.result(daemon, run)

    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")
    assert result["durations"]["waiting"] >= 4.5


def test_parking_is_no_work_and_each_turn_has_its_own_time(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The second turn of a kept run begins with a whole limit."""
    run = live.keep(daemon, repo, "sleep 2.2", timeouts={"turn_s": 4, "work_s": 20, "stall_s": 9})
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "sleep 2.2\nsay two")
    live.until_turn(daemon, run, 2, "turn.ended")
    result = live.close(daemon, run)

    assert (result["outcome"], result["final_message"]) == ("succeeded", "two")


def test_a_run_that_gets_no_place_in_time_ends(state_dir: Path, repo: Path) -> None:
    """Queueing has a limit of its own, and the run that never began leaves nothing behind."""
    config = state_dir / "config.toml"
    config.write_text("[capacity]\nmax_active = 1\n")
    daemon = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)})
    daemon.start()
    try:
        first = at.start(daemon, repo, "sleep 300")
        second = at.start(daemon, repo, "say never", timeouts={"queue_s": 1})
        result = at.result(daemon, second)
        with daemon.client() as client:
            client.run.cancel([first])

        assert (result["outcome"], result["stop_reason"]) == ("timed_out", "queue")
        assert result["attempts"] == 0
        assert at.result(daemon, first)["outcome"] == "cancelled"
    finally:
        daemon.tidy()


@pytest.mark.parametrize("which", ["work", "stall"])
def test_what_expired_while_no_daemon_lived_is_enforced_by_the_next(
    daemon: DaemonProcess, repo: Path, which: str
) -> None:
    """The time goes on without a daemon, counted from what the journal and the logs tell."""
    run = at.start(daemon, repo, "say one\nsleep 300", timeouts={f"{which}_s": 4})
    live.until_said(daemon, run, "one")
    daemon.kill()
    until = began(daemon, run) / 1000 + 4.5
    at.sleep_until(until)
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("timed_out", which)
    assert expired(daemon, run)["ts"] - began(daemon, run, "run.recovered") <= LATE_MS


def test_a_restart_neither_resets_nor_shortens_what_was_spent(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Killed in the middle, the run ends when it would have ended without that."""
    run = at.start(daemon, repo, "say one\nsleep 300", timeouts={"work_s": 5})
    live.until_said(daemon, run, "one")
    daemon.restart()
    result = at.result(daemon, run)

    spent_ms = expired(daemon, run)["ts"] - began(daemon, run, "run.state")
    assert result["stop_reason"] == "work"
    assert 5000 <= spent_ms <= 5000 + LATE_MS
