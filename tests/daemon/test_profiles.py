"""Runs of each profile through a real daemon: what they find, and what is left of them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess, git, make_repository


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for the tests of this file; each has tasks of its own."""
    root = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    process = DaemonProcess(root)
    make_repository(root / "repo")
    process.start()
    yield process
    process.tidy()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def repo(daemon: DaemonProcess) -> Path:
    return daemon.root / "repo"


def sh(daemon: DaemonProcess, repo: Path, script: str, **options: Any) -> dict[str, Any]:
    """The result of a run of a shell script."""
    run = at.start(daemon, repo, "", agent="command", argv=["/bin/sh", "-c", script], **options)
    return at.result(daemon, run)


# --- review ---


def test_a_review_changes_nothing(daemon: DaemonProcess, repo: Path) -> None:
    """It reads the tree and its history, writes files for whoever asked, and changes no file."""
    script = (
        "cat a.txt; git log --oneline | wc -l; git status --short; echo x > found.txt; rm a.txt;"
        " echo y > a.txt; git commit -qam no; echo report > /output/report; echo kept > ~/note"
    )
    result = sh(daemon, repo, script, task="read", profile="review")
    tree = Path(result["worktree"])

    assert result["final_message"].split() == ["first", "1"]
    assert (result["profile"], result["changed_files"], result["warnings"]) == ("review", [], [])
    assert result["commits"]["from"] == result["commits"]["to"] == git(repo, "rev-parse", "HEAD")
    assert [artifact["path"] for artifact in result["artifacts"]] == ["report"]
    assert sorted(path.name for path in tree.iterdir()) == [".git", "a.txt", "sub"]
    assert (tree / "a.txt").read_text() == "first\n"


def test_a_review_runs_beside_the_run_that_writes(daemon: DaemonProcess, repo: Path) -> None:
    """It sees what that wrote, and is no obstacle to it; a second writer is refused."""
    writer = live.keep(daemon, repo, "write made.txt by the writer", task="beside")
    live.until_parked(daemon, writer)
    result = sh(daemon, repo, "cat made.txt", task="beside", profile="review")
    with daemon.client() as client:
        refused = live.refused(client.run.start, "x", dir=str(repo), agent="demo", task="beside")
        diff = client.run.diff(result["run"])
    live.close(daemon, writer)
    reviewed = git(repo, "show", f"refs/coachman/run/{result['run']}:made.txt")

    assert result["final_message"].strip() == reviewed == "by the writer"
    assert refused.detail["holder"] == writer
    assert "--profile review" in str(refused.hint)
    assert (diff["files"], diff["patch"]) == ([], "")


def test_a_tree_that_is_being_read_is_not_cleaned_up(daemon: DaemonProcess, repo: Path) -> None:
    """A living review keeps the worktree of runs that have ended."""
    ended = sh(daemon, repo, "echo x > x", task="watched")
    reader = live.keep(daemon, repo, task="watched", profile="review")
    live.until_parked(daemon, reader)
    with daemon.client() as client:
        cleaned = client.daemon.cleanup(tasks=["watched"], dir=str(repo))
    there = Path(ended["worktree"], "x").exists()
    live.close(daemon, reader)

    assert there
    assert f"run {reader[-5:]} works in it" in str(cleaned)


def test_reviews_of_a_new_task_begin_side_by_side(daemon: DaemonProcess, repo: Path) -> None:
    """Each finds the worktree, whichever of them makes it."""
    options = {"agent": "command", "argv": ["cat", "a.txt"], "profile": "review", "task": "many"}
    runs = [at.start(daemon, repo, "", **options) for _ in range(3)]
    results = [at.result(daemon, run) for run in runs]

    assert [result["final_message"] for result in results] == ["first\n"] * 3


def test_a_review_is_resumed_in_its_session(daemon: DaemonProcess, repo: Path) -> None:
    """The private home that its session lies in is of the same policy."""
    first = at.start(daemon, repo, "say one", task="again", profile="review")
    at.result(daemon, first)
    with daemon.client() as client:
        second = client.run.resume(first, "say two")["run"]
    result = at.result(daemon, second)

    assert (result["outcome"], result["profile"]) == ("succeeded", "review")
