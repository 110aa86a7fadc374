"""Thirty-two runs at once beside a person who commits by hand: `scripts/soak commits`."""

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import recovery_state as at
from daemon_process import DaemonProcess, git
from recovery_storm import processes_of

pytestmark = pytest.mark.soak
RUNS = 32
LOCKED = ("index.lock", "config.lock", "cannot lock", "Unable to create", "unable to write")


class Person:
    """Commits by hand, over and over, and keeps something staged and something unstaged."""

    def __init__(self, repo: Path) -> None:
        self.repo = repo
        self.commits: list[str] = []
        self.errors: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        (repo / "a.txt").write_text("changed, not staged\n")

    def __enter__(self) -> "Person":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.is_set():
            number = len(self.commits) + 1
            (self.repo / "by-hand.txt").write_text(f"{number}\n")
            try:
                git(self.repo, "add", "by-hand.txt")
                git(self.repo, "commit", "-q", "-m", f"by hand {number}")
                self.commits.append(git(self.repo, "rev-parse", "HEAD"))
                git(self.repo, "gc", "-q") if number % 10 == 0 else None
            except subprocess.CalledProcessError as error:
                self.errors.append(error.stderr)


def test_nobody_stands_in_the_way_of_whoever_commits_by_hand(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """No lock is met on either side; the person's index, branch and files are as they left them."""
    runs: list[str] = []

    def begin(number: int) -> None:
        runs.append(at.start(daemon, repo, f"run echo {number} > made.txt\nsay {number}"))

    with Person(repo) as person:
        threads = [threading.Thread(target=begin, args=(n,)) for n in range(RUNS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        results = [at.result(daemon, run, 180) for run in runs]
    log = git(repo, "log", "--format=%H", "--reverse").split()
    status = git(repo, "status", "--porcelain").splitlines()
    print(f"{len(runs)} runs beside {len(person.commits)} commits by hand")

    assert len(runs) == RUNS
    assert person.errors == []
    assert [result["outcome"] for result in results] == ["succeeded"] * RUNS
    told = [text for result in results for text in result["warnings"]]
    assert not [text for text in told if any(word in text for word in LOCKED)], told
    assert {len(result["changed_files"]) for result in results} == {1}
    assert log[1:] == person.commits
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert status == ["M a.txt"]
    assert git(repo, "fsck", "--strict") == ""
    for result in results:
        [change] = result["changed_files"]
        assert change["path"] == "made.txt"
        git(repo, "cat-file", "-e", f"refs/coachman/run/{result['run']}")
    assert eventually(lambda: processes_of(daemon.state, set(runs)) == [])
