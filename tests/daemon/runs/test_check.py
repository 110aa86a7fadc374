"""The check of a run: a command in its boundary that decides once the agent is through."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess, git

WAITS = "touch /output/waits; while ! test -e /output/go; do sleep 0.05; done"


@pytest.fixture(autouse=True)
def nothing_unexpected(state_dir: Path) -> Iterator[None]:
    """No run had to be taken up again because carrying it failed."""
    yield
    assert "run_failed" not in (state_dir / "daemon.log").read_text()


def start(daemon: DaemonProcess, repo: Path, check: str, prompt: str, **options: Any) -> str:
    """Start a demo run with a check; its id."""
    return at.start(daemon, repo, prompt, check=check, **options)


def until_checking(daemon: DaemonProcess, run: str) -> Path:
    """Wait until the check itself runs; where it looks for leave to go on."""
    at.until_event(daemon, run, lambda event: event["type"] == "check.started")
    output = at.directory(daemon, run) / "output"
    at.until((output / "waits").exists)
    return output


def test_a_check_that_passes_lets_the_run_succeed(daemon: DaemonProcess, repo: Path) -> None:
    """It sees what the agent made; how it went is in the result and in the events."""
    run = start(daemon, repo, "grep made new.txt; echo late >&2", "write new.txt made\nsay done")
    result = at.result(daemon, run)
    check = result["check"]

    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")
    assert (check["exit"], check["output"]) == (0, "made\nlate\n")
    assert check["duration_s"] > 0
    states = [e["to"] for e in live.of_type(daemon, run, "run.state")]
    assert states[-4:] == ["stopping", "checking", "stopping", "ended"]
    at.check_journal(daemon.events(run))


def test_a_check_that_fails_fails_the_run_and_says_why(daemon: DaemonProcess, repo: Path) -> None:
    """Exit code 8, its status and the end of its output; the work is kept."""
    ran = daemon.cli(
        "run", "-a", "demo", "-t", "t1", "--check", "echo no such thing; exit 3", "write a.txt x",
        cwd=repo,
    )  # fmt: skip
    shown = daemon.cli("result", "t1", cwd=repo)
    result = json.loads(daemon.cli("result", "t1", "--json", cwd=repo).stdout)

    assert (ran.returncode, shown.returncode) == (8, 8)
    assert (result["outcome"], result["check"]["exit"]) == ("check_failed", 3)
    assert result["error"]["message"] == "the check exited with status 3: no such thing"
    assert [change["path"] for change in result["changed_files"]] == ["a.txt"]
    assert "check failed" in shown.stdout
    assert "no such thing" in shown.stdout


def test_what_a_check_writes_is_not_the_agents(daemon: DaemonProcess, repo: Path) -> None:
    """The tree is recorded before it; what it leaves lies in the worktree only."""
    run = start(daemon, repo, "echo x > left.txt; echo y >> a.txt", "write made.txt x")
    result = at.result(daemon, run)

    assert [change["path"] for change in result["changed_files"]] == ["made.txt"]
    assert (Path(result["worktree"]) / "left.txt").exists()
    assert "left.txt" not in git(repo, "ls-tree", "-r", f"refs/coachman/run/{run}")


@pytest.mark.parametrize("prompt", ["fail broken", "refuse", "exit 3"])
def test_a_turn_that_went_wrong_is_not_checked(
    daemon: DaemonProcess, repo: Path, prompt: str
) -> None:
    """Its own end says more than a check of half-done work."""
    run = start(daemon, repo, "true", prompt)
    result = at.result(daemon, run)

    assert result["outcome"] in ("failed", "refused")
    assert result["check"] is None


def test_a_kept_run_is_checked_at_its_end(daemon: DaemonProcess, repo: Path) -> None:
    """Once, after all of its turns."""
    run = live.keep(daemon, repo, "write one.txt 1", check="cat one.txt two.txt")
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "write two.txt 2")
    live.until_turn(daemon, run, 2, "turn.recorded")
    live.until_parked(daemon, run)
    assert live.of_type(daemon, run, "check.started") == []
    result = live.close(daemon, run)

    assert (result["outcome"], result["check"]["output"]) == ("succeeded", "1\n2\n")
    assert {change["path"] for change in result["changed_files"]} == {"one.txt", "two.txt"}


def test_a_check_outlives_its_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """SIGKILL in the middle: the next daemon finds it, and it is run once."""
    check = f"echo once >> /output/runs; {WAITS}; cat /output/runs"
    run = start(daemon, repo, check, "say done")
    output = until_checking(daemon, run)
    daemon.restart()
    (output / "go").touch()
    result = at.result(daemon, run)

    assert (result["outcome"], result["check"]["output"]) == ("succeeded", "once\n")
    at.check_journal(daemon.events(run))


def test_a_check_that_ended_without_a_daemon_is_read_by_the_next(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Its status and its output wait on the disk."""
    run = start(daemon, repo, f"{WAITS}; echo over; exit 4", "say done")
    output = until_checking(daemon, run)
    daemon.kill()
    (output / "go").touch()
    exit_file = at.attempt(daemon, run) / "check" / "exit.json"
    at.until(exit_file.exists)
    daemon.start()
    result = at.result(daemon, run)

    assert result["outcome"] == "check_failed"
    assert (result["check"]["exit"], result["check"]["output"]) == (4, "over\n")


def test_a_killed_check_is_no_success(daemon: DaemonProcess, repo: Path) -> None:
    """Where nobody can say how it ended, it did not pass."""
    run = start(daemon, repo, WAITS, "say done")
    until_checking(daemon, run)
    state = json.loads((at.attempt(daemon, run) / "check" / "keeper.json").read_bytes())
    at.kill(state["pid"])
    result = at.result(daemon, run)

    assert (result["outcome"], result["check"]["exit"]) == ("check_failed", None)
    assert "killed" in result["error"]["message"]


def test_a_check_has_a_limit_of_its_own(daemon: DaemonProcess, repo: Path) -> None:
    """It is ended at it, and the run says so."""
    run = start(daemon, repo, "echo begun; sleep 300", "say done", timeouts={"check_s": 1})
    result = at.result(daemon, run)

    assert (result["outcome"], result["check"]["exit"]) == ("check_failed", None)
    assert result["check"]["output"] == "begun\n"
    assert "not done after" in result["error"]["message"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_cancel_ends_a_check(daemon: DaemonProcess, repo: Path, killed: bool) -> None:
    """The run is cancelled, not failed, and nothing of the check lives on."""
    run = start(daemon, repo, WAITS, "say done")
    until_checking(daemon, run)
    with daemon.client() as client:
        [told] = client.run.cancel([run])["runs"]
        if killed:
            daemon.restart()
    result = at.result(daemon, run)

    assert told["already"] is False
    assert (result["outcome"], result["stop_reason"]) == ("cancelled", "cancelled")
    assert daemon.keepers() == []


def test_the_wall_ends_a_check(daemon: DaemonProcess, repo: Path) -> None:
    """The run's own time goes on while it is checked."""
    run = start(daemon, repo, "sleep 300", "say done", timeouts={"wall_s": 3})
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("timed_out", "wall")


def test_a_repositorys_own_check_is_configured(state_dir: Path, repo: Path) -> None:
    """Its runs are checked without being asked to; an empty one leaves it out."""
    config = state_dir / "config.toml"
    config.write_text(f'[repo."{repo}"]\ncheck = "exit 9"\n')
    daemon = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)})
    daemon.start()
    try:
        checked = at.result(daemon, at.start(daemon, repo, "say one"))
        left_out = at.result(daemon, start(daemon, repo, "", "say two"))

        assert (checked["outcome"], checked["check"]["exit"]) == ("check_failed", 9)
        assert (left_out["outcome"], left_out["check"]) == ("succeeded", None)
    finally:
        daemon.tidy()
