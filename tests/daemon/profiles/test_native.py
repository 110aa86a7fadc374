"""Runs on the host without a namespace, through a real daemon: `run -p host --native`."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess
from shared_daemon import sh, shared_daemon
from sleepers import new_sleep, sleeping

LEAVE = "setsid sh -c 'sleep {} & sleep {} &' </dev/null >/dev/null 2>&1"
NATIVE = {"profile": "host", "native": True}


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for the tests of this file; each has tasks of its own."""
    with shared_daemon() as process:
        yield process


@pytest.fixture
def repo(daemon: DaemonProcess) -> Path:
    return daemon.root / "repo"


def test_it_runs_among_the_processes_of_its_user(daemon: DaemonProcess, repo: Path) -> None:
    """No namespace, the worktree at its path, the home and the directories of the run."""
    (daemon.home / "mine").write_text("of the user\n")
    script = (
        "pwd; readlink /proc/self/ns/pid; cat ~/mine; echo x > made; echo y > $COACHMAN_OUTPUT/y;"
        " grep NoNewPrivs /proc/self/status"
    )
    result = sh(daemon, repo, script, task="plain", check="test -f made", **NATIVE)
    said = result["final_message"].split("\n")

    assert said[:3] == [result["worktree"], os.readlink("/proc/self/ns/pid"), "of the user"]
    assert said[3].split() == ["NoNewPrivs:", "1"]
    assert [change["path"] for change in result["changed_files"]] == ["made"]
    assert [row["path"] for row in result["artifacts"]] == ["y"]
    assert (result["outcome"], result["check"]["exit"]) == ("succeeded", 0)


def test_what_it_leaves_is_gone_when_it_has_ended(daemon: DaemonProcess, repo: Path) -> None:
    """Two daemons in a session of their own."""
    seconds = new_sleep()
    result = sh(daemon, repo, LEAVE.format(seconds, seconds), task="left", **NATIVE)

    assert result["outcome"] == "succeeded"
    assert sleeping(seconds) == []


def test_the_weaker_kill_is_on_record(daemon: DaemonProcess, repo: Path) -> None:
    """Header, dry run, policy and explain say it; the policy is another one than without."""
    words = ["run", "-p", "host", "-a", "demo", "--permissions", "allow"]
    dry = daemon.cli(*words, "--native", "--dry-run", "say hi", cwd=repo).stdout
    same = json.loads(daemon.cli(*words, "--dry-run", "--json", "say hi", cwd=repo).stdout)
    ran = daemon.cli(*words, "--native", "-t", "told", "-q", "say hi", cwd=repo)
    shown = json.loads(daemon.cli("show", "told", "--policy", "--json", cwd=repo).stdout)
    explained = daemon.cli("profile", "explain", "host", cwd=repo).stdout

    assert ran.returncode == 0, ran.stderr
    assert "profile host, native with a weaker kill, permissions allow" in dry
    assert "kill: weaker: what descends from the agent is walked" in dry
    assert shown["policy"]["kill"].startswith("weaker: ")
    assert (shown["policy"]["confinement"], shown["bwrap"]) == ("none", None)
    assert (shown["policy"]["mounts"], shown["policy"]["argv"]) == ([], [])
    assert shown["policy"]["digest"] != same["compiled"]["policy"]["digest"]
    assert same["compiled"]["policy"]["kill"].startswith("whole: ")
    assert "with --native none, and a weaker kill" in explained


def test_it_is_only_for_who_asks_on_the_host(daemon: DaemonProcess, repo: Path) -> None:
    """No other profile is native, no run without the word is, and no delegate has one."""
    start = {"dir": str(repo), "agent": "demo"}
    delegate = {"depth": 1, "children": 1}
    with daemon.client() as client:
        confined = live.refused(client.run.start, "x", **start, native=True)
        given = live.refused(client.run.start, "x", **start, **NATIVE, delegate=delegate)
    script = "coachman run -a demo -p host --native 'say x' 2>&1; coachman run --native x 2>&1"
    child = sh(daemon, repo, script, task="parent", delegate=delegate)
    plain = sh(daemon, repo, "readlink /proc/self/ns/pid", task="ns", profile="host")

    assert "only a run on the host is native" in confined.message
    assert "gets no delegate" in given.message
    assert child["final_message"].count("native") >= 2
    assert "what runs on the host is the user's to say" in child["final_message"]
    assert plain["final_message"].strip() != os.readlink("/proc/self/ns/pid")


def test_a_session_goes_on_as_it_was_begun(daemon: DaemonProcess, repo: Path) -> None:
    """A resume is native where the run was."""
    first = at.start(daemon, repo, "say one", task="again", permissions="allow", **NATIVE)
    at.result(daemon, first)
    with daemon.client() as client:
        second = client.run.resume(first, "say two")["run"]
        at.result(daemon, second)
        policy = client.run.policy(second)["policy"]

    assert policy["confinement"] == "none"


# --- deaths ---


@pytest.fixture
def dying(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon that a test kills."""
    process = DaemonProcess(state_dir)
    yield process.start()
    process.tidy()


def waiting(daemon: DaemonProcess, repo: Path, seconds: str) -> str:
    """A native run that left daemons behind and waits for a file."""
    script = f"{LEAVE.format(seconds, seconds)}; echo up; while ! test -e go; do sleep 0.1; done"
    argv = ["/bin/sh", "-c", script]
    run = at.start(daemon, repo, "", agent="command", argv=argv, task="waits", **NATIVE)
    at.until_event(daemon, run, lambda event: event["type"] == "agent.message_chunk")
    return run


def test_a_killed_daemon_changes_nothing(dying: DaemonProcess, repo: Path) -> None:
    """The keeper goes on; the next daemon has the end of the run, and nothing is left of it."""
    seconds = new_sleep()
    run = waiting(dying, repo, seconds)
    dying.kill()
    there = len(sleeping(seconds))
    dying.start()
    with dying.client() as client:
        worktree = client.run.get(run)["worktree"]
    Path(worktree, "go").touch()
    result = at.result(dying, run)

    assert there >= 2
    assert result["outcome"] == "succeeded"
    assert sleeping(seconds) == []


@pytest.mark.parametrize("daemon_too", [False, True])
def test_a_killed_keeper_leaves_nothing(
    dying: DaemonProcess, repo: Path, *, daemon_too: bool
) -> None:
    """The run is lost, and what it had started is ended before it says so."""
    seconds = new_sleep()
    run = waiting(dying, repo, seconds)
    keeper = json.loads((at.attempt(dying, run) / "keeper.json").read_text())["pid"]
    if daemon_too:
        dying.kill()
    os.kill(keeper, signal.SIGKILL)
    if daemon_too:
        dying.start()
    result = at.result(dying, run)

    assert result["outcome"] == "lost"
    assert sleeping(seconds) == []
