"""Keepers that idle, fall silent or are killed: `scripts/soak keeper`."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import recovery_state as at
from daemon_process import DaemonProcess

pytestmark = pytest.mark.soak
IDLE_S = 16.0
# Longer than a request to the keeper may take, shorter than it is looked for.
DEAF_S = 13.0
GIVEN_UP_WITHIN_S = 90.0


def test_a_sandbox_outlives_the_threads_that_idle_away(daemon: DaemonProcess, repo: Path) -> None:
    """A run that waits longer than any idle worker thread lives is there as before."""
    run = at.start(daemon, repo, "ask one\nsay done", permissions="ask")
    request = at.until_asked(daemon, run)
    pids = at.sandbox_pids(daemon, run)
    time.sleep(IDLE_S)

    assert at.living(pids) == pids
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    assert at.result(daemon, run)["outcome"] == "succeeded"


def test_a_keeper_that_was_silent_for_a_while_hears_what_it_missed(
    daemon: DaemonProcess, repo: Path
) -> None:
    """An answer given meanwhile reaches the agent once, over the next connection."""
    run = at.start(daemon, repo, "ask one\nsay done", permissions="ask")
    request = at.until_asked(daemon, run)
    pids = at.sandbox_pids(daemon, run)
    os.kill(pids[0], signal.SIGSTOP)
    since = time.monotonic()
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    time.sleep(max(0.0, since + DEAF_S - time.monotonic()))
    os.kill(pids[0], signal.SIGCONT)
    result = at.result(daemon, run)
    stdin = (at.attempt(daemon, run) / "stdin.log").read_bytes()

    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")
    assert stdin.count(b'"outcome":"selected"') == 1
    at.check_journal(daemon.events(run))


def test_a_keeper_that_stays_silent_is_ended_with_its_tree(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """A run is not given up while its agent goes on: keeper and sandbox are killed first."""
    run = at.start(daemon, repo, "say hi\nask one", permissions="ask")
    request = at.until_asked(daemon, run)
    pids = at.sandbox_pids(daemon, run)
    os.kill(pids[0], signal.SIGSTOP)
    with daemon.client() as client:
        client.permission.answer(request, run=run, kind="allow")
    result = at.result(daemon, run, GIVEN_UP_WITHIN_S)

    assert (result["outcome"], result["stop_reason"]) == ("lost", "keeper_lost")
    assert at.living(pids) == []
    at.check_journal(daemon.events(run))


def test_no_run_succeeds_whose_keeper_was_killed(
    daemon: DaemonProcess, repo: Path, rounds: int, eventually: Callable[..., object]
) -> None:
    """Killed at a random moment, a keeper leaves exit.json and the truth, or a lost run."""
    chance, lost = random.Random(7), 0
    for _ in range(rounds):
        run = at.start(daemon, repo, "chunks 50\nrun sleep 0.1\nsay done")
        state = at.attempt(daemon, run) / "keeper.json"
        eventually(state.exists)
        time.sleep(chance.uniform(0, 0.6))
        pids = at.sandbox_pids(daemon, run)
        if at.living(pids[:1]):
            os.kill(pids[0], signal.SIGKILL)
        result = at.result(daemon, run)
        left = (at.attempt(daemon, run) / "exit.json").exists()
        assert result["outcome"] == ("succeeded" if left else "lost"), result
        assert eventually(lambda pids=pids: at.living(pids) == [])
        at.check_journal(daemon.events(run))
        lost += not left
    assert lost > 0
