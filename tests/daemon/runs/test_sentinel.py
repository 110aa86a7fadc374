"""A file that says how a run ended: once, on every path, and only where it is safe."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import coachman
import recovery_state as at
from coachmand.failpoints import SENTINEL_STEPS, VARIABLE
from coachmand.runs.ending.sentinel import _safe
from daemon_process import DaemonProcess

NAMES = ["SESSION", "STOP_REASON", "REASON", "EXIT_CODE", "RUN"]


@pytest.fixture
def sentinel(state_dir: Path) -> Path:
    (state_dir / "mine").mkdir(mode=0o700)
    return state_dir / "mine" / "done"


def start(daemon: DaemonProcess, repo: Path, prompt: str, sentinel: Path, **more: Any) -> str:
    return at.start(daemon, repo, prompt, sentinel_file=str(sentinel), **more)


def read(path: Path) -> tuple[str, dict[str, str]]:
    first, *lines = path.read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines)
    assert list(values) == NAMES
    return first, values


@pytest.mark.parametrize(
    ("prompt", "more", "first", "expected"),
    [
        ("say hi", {}, "DONE", {"REASON": "succeeded", "EXIT_CODE": "0"}),
        (
            "",
            {"agent": "command", "argv": ["/bin/sh", "-c", "exit 3"]},
            "FAILED",
            {"EXIT_CODE": "1"},
        ),
        (
            "sleep 60",
            {"timeouts": {"wall_s": 2}},
            "TIMEOUT",
            {"STOP_REASON": "wall", "EXIT_CODE": "124"},
        ),
    ],
)
def test_it_says_how_the_run_ended(
    daemon: DaemonProcess,
    repo: Path,
    sentinel: Path,
    eventually: Callable[..., object],
    prompt: str,
    more: dict[str, Any],
    first: str,
    expected: dict[str, str],
) -> None:
    """One word, then names and values; once it is there, the result is, too."""
    run = start(daemon, repo, prompt, sentinel, **more)
    eventually(sentinel.exists, 60)
    with daemon.client() as client:
        result = client.run.result(run)
    word, values = read(sentinel)

    assert word == first
    assert expected.items() <= values.items()
    assert values["RUN"] == run
    assert values["SESSION"] == (result["session"] or "")
    assert sentinel.stat().st_mode & 0o777 == 0o600
    eventually(lambda: os.listdir(daemon.state / "owed") == [])
    assert os.listdir(sentinel.parent) == ["done"]


def test_a_cancelled_run_and_one_that_never_began_have_theirs(
    daemon: DaemonProcess, repo: Path, sentinel: Path, eventually: Callable[..., object]
) -> None:
    """Cancelled: KILLED. Accepted and refused by what came between: FAILED."""
    config = daemon.home / ".config" / "coachman" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[capacity]\nmax_active = 1\n")
    daemon.restart()
    first = start(daemon, repo, "sleep 60", sentinel)
    other = sentinel.with_name("other")
    queued = start(daemon, repo, "say hi", other, task="second")
    at.until_event(daemon, first, lambda event: event["type"] == "run.started")
    shutil.rmtree(repo / ".git" / "objects")
    with daemon.client() as client:
        client.run.cancel([first])
    eventually(sentinel.exists)
    eventually(other.exists)

    assert read(sentinel)[0] == "KILLED"
    assert read(other)[0] == "FAILED"
    assert read(other)[1]["RUN"] == queued


def test_a_daemon_that_was_killed_meanwhile_changes_nothing(
    daemon: DaemonProcess, repo: Path, sentinel: Path, eventually: Callable[..., object]
) -> None:
    """The run goes on without it, and the next daemon writes the sentinel."""
    sentinel.write_text("DONE\nRUN=an-earlier-one\n")
    run = start(daemon, repo, "ask on", sentinel, permissions="ask")
    request = at.until_asked(daemon, run)
    assert not sentinel.exists()
    daemon.restart()
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    eventually(sentinel.exists)

    assert read(sentinel)[1]["RUN"] == run


@pytest.mark.parametrize("step", [*SENTINEL_STEPS, "end.recorded", "end.indexed"])
def test_a_daemon_that_dies_on_the_way_leaves_it_to_be_written_once(
    state_dir: Path,
    repo: Path,
    sentinel: Path,
    eventually: Callable[..., object],
    step: str,
) -> None:
    """Killed at any step: written by the next daemon, unless it was; never a second time."""
    daemon = DaemonProcess(state_dir, {VARIABLE: f"{step}:kill"}).start()
    try:
        run = start(daemon, repo, "say hi", sentinel)
        assert daemon.process is not None
        daemon.process.wait(60)
        was_there = sentinel.exists()
        assert was_there == (step == "sentinel.moved")
        if was_there:
            assert read(sentinel)[0] == "DONE"
            sentinel.unlink()
        del daemon.env[VARIABLE]
        daemon.start()
        at.result(daemon, run)
        state = at.directory(daemon, run) / "sentinel.json"
        eventually(lambda: state.exists() and json.loads(state.read_text())["state"] == "written")
        eventually(lambda: os.listdir(daemon.state / "owed") == [])
        assert sentinel.exists() == (not was_there)
        assert os.listdir(sentinel.parent) == ([] if was_there else ["done"])
    finally:
        daemon.tidy()


def test_where_agents_write_or_others_may_no_sentinel_is_taken(
    daemon: DaemonProcess, repo: Path, sentinel: Path
) -> None:
    """Refused before anything happens, and what lies there is left alone."""
    precious = sentinel.with_name("precious")
    precious.write_text("mine\n")
    sentinel.with_name("open").mkdir()
    sentinel.with_name("open").chmod(0o777)
    (sentinel.parent / "inside").symlink_to(daemon.state / "runs")
    refused = {
        "which agents write": [daemon.state / "x", sentinel.parent / "inside" / "x"],
        "no sentinel of an earlier run": [precious],
        "no sentinel": [sentinel.parent / "inside", sentinel.with_name("open")],
        "others may write": [sentinel.parent / "open" / "x"],
        "has no directory": [sentinel.parent / "none" / "x"],
    }
    for why, paths in refused.items():
        for path in paths:
            with pytest.raises(coachman.CoachmanError, match=why):
                start(daemon, repo, "say hi", path)
    with pytest.raises(coachman.CoachmanError, match="an absolute path"):
        start(daemon, repo, "say hi", Path("relative"))

    assert precious.read_text() == "mine\n"
    assert os.listdir(daemon.state / "runs") == []


def test_a_directory_that_became_a_link_is_not_followed(
    daemon: DaemonProcess, repo: Path, sentinel: Path, eventually: Callable[..., object]
) -> None:
    """Nothing is written through it; once the directory is back, the sentinel is."""
    run = start(daemon, repo, "sleep 1", sentinel)
    moved = sentinel.parent.rename(sentinel.parent.with_name("moved"))
    elsewhere = sentinel.parent.with_name("elsewhere")
    elsewhere.mkdir()
    sentinel.parent.symlink_to(elsewhere)
    at.result(daemon, run)
    eventually(lambda: "sentinel_not_written" in daemon.log)
    assert os.listdir(elsewhere) == os.listdir(moved) == []
    sentinel.parent.unlink()
    moved.rename(sentinel.parent)
    eventually(sentinel.exists)

    assert read(sentinel)[0] == "DONE"


def test_values_are_safe_for_any_reader() -> None:
    """Whatever an agent calls its session, a value holds no more than names do."""
    assert _safe("a\nRUN=b $(x) ../é") == "a_RUN_b___x__.._" + "_"
    assert len(_safe("x" * 1000)) == 128
    assert _safe(None) == ""


def test_the_command_line_resolves_the_path_against_its_own_directory(
    daemon: DaemonProcess, repo: Path, sentinel: Path, eventually: Callable[..., object]
) -> None:
    """`run --sentinel-file done` is a file of the caller's directory; one is not there already."""
    done = daemon.cli("run", "-a", "demo", "say hi", "--sentinel-file", "done", cwd=repo)
    eventually((repo / "done").exists)

    assert done.returncode == 0
    assert read(repo / "done")[0] == "DONE"
