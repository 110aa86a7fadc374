"""Places among the active runs: who is next, who waits behind a limit, who may not queue."""

from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
from coachmand.runs.admission import FEWEST, MOST, PRIORITY_S, Admission, default_active
from daemon_process import DaemonProcess


class Runs:
    """Runs that queue, and the order in which they got their places."""

    def __init__(self, limit: int = 1, most_queued: int | None = None) -> None:
        self.admission = Admission(limit, most_queued)
        self.admitted: list[str] = []

    def enter(
        self, run: str, since_s: float = 0.0, *, priority: int = 0, account: str = ""
    ) -> None:
        self.admission.enter(
            run,
            lambda: self.admitted.append(run),
            account=account,
            priority=priority,
            since_s=since_s,
        )

    def drain(self) -> list[str]:
        """Let each run go as soon as it has its place; the order of all of them."""
        for run in self.admitted:
            self.admission.leave(run)
        return self.admitted


def test_the_one_that_waited_longest_is_next() -> None:
    """Whatever the order in which they asked: a restarted daemon asks anew."""
    runs = Runs()
    for run, since_s in (("a", 0), ("d", 30), ("b", 10), ("c", 20)):
        runs.enter(run, since_s)

    assert runs.drain() == ["a", "b", "c", "d"]


def test_a_higher_priority_goes_first_and_starves_nobody() -> None:
    """It is worth a wait of ten minutes each; who has waited longer than that is before it."""
    runs = Runs()
    runs.enter("active")
    runs.enter("patient", 0)
    runs.enter("plain", 2 * PRIORITY_S - 1)
    runs.enter("urgent", 2 * PRIORITY_S, priority=1)
    runs.enter("modest", 2 * PRIORITY_S, priority=-1)
    runs.enter("late", 9 * PRIORITY_S, priority=10)

    assert runs.drain() == ["active", "late", "patient", "urgent", "plain", "modest"]


def test_an_account_that_is_held_is_passed_by() -> None:
    """Its runs keep their turn and get it once every holder has let go."""
    runs = Runs(limit=3)
    runs.admission.hold("a/x", "h1", 10)
    runs.admission.hold("a/x", "h2", 20)
    runs.enter("same", 1, account="a/x")
    runs.enter("other", 2, account="b/x")
    assert runs.admitted == ["other"]
    runs.admission.release("h1")
    assert runs.admitted == ["other"]
    runs.admission.release("h2")
    assert runs.admitted == ["other", "same"]
    runs.admission.release("h2")


def test_a_paused_one_admits_nobody() -> None:
    """Until it goes on."""
    runs = Runs()
    runs.admission.pause(True, "storage")
    runs.enter("a")
    assert runs.admitted == []
    runs.admission.pause(False, "storage")
    assert runs.admitted == ["a"]


def test_nobody_is_admitted_before_all_that_were_here_have_said_what_they_hold() -> None:
    """Whoever asks first after a restart is not the one that waited longest."""
    runs = Runs()
    for run in ("young", "old", "active", "parked"):
        runs.admission.expect(run)
    runs.enter("young", since_s=2.0)
    runs.admission.take("active")
    runs.enter("old", since_s=1.0)
    assert runs.admitted == []
    runs.admission.leave("parked")
    assert runs.admitted == []
    runs.admission.leave("active")
    assert runs.admitted == ["old"]


def test_a_machine_gets_what_it_bears() -> None:
    """Never so few that one run blocks all others, nor more than anybody can look after."""
    assert FEWEST <= default_active() <= MOST


@pytest.fixture
def small(state_dir: Path) -> DaemonProcess:
    """A daemon with one place and a queue for two."""
    config = state_dir / "config.toml"
    config.write_text("[capacity]\nmax_active = 1\nmax_queued = 2\n")
    return DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)})


def test_a_full_daemon_says_so_with_its_numbers(small: DaemonProcess, repo: Path) -> None:
    """Who would not wait, and who comes when the queue is full, is told how full it is."""
    small.start()
    try:
        first = at.start(small, repo, "sleep 300")
        with small.client() as client:
            refused = live.refused(client.run.start, "say x", dir=str(repo), no_wait=True)
        queued = [at.start(small, repo, "say x") for _ in range(2)]
        with small.client() as client:
            full = live.refused(client.run.start, "say x", dir=str(repo), agent="demo")
            client.run.cancel([first, *queued])
            client.run.wait([first, *queued], timeout_s=180)

        place = {"source": "local", "limit": 1, "active": 1}
        assert (refused.name, refused.detail) == ("Busy", {**place, "queued": 0})
        assert (full.name, full.detail) == ("Busy", {**place, "queued": 2})
        assert full.retryable
    finally:
        small.tidy()


def test_a_restart_keeps_the_queues_order(small: DaemonProcess, repo: Path) -> None:
    """By priority and age, as before."""
    small.start()
    try:
        first = at.start(small, repo, "sleep 300")
        plain = at.start(small, repo, "say plain")
        urgent = at.start(small, repo, "say urgent", priority=3)
        small.restart()
        with small.client() as client:
            client.run.cancel([first])
            client.run.wait([plain, urgent], timeout_s=180)
        began = [live.of_type(small, run, "run.started")[0]["ts"] for run in (urgent, plain)]

        assert began == sorted(began)
    finally:
        small.tidy()
