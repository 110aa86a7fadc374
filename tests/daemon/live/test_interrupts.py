"""Ending a turn before the agent does, and what comes after."""

from collections.abc import Callable
from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
from coachmand.runs.control.turns import MAX_QUEUED
from daemon_process import DaemonProcess


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("say one\nsleep 60", "one"),
        ("say one\nchunks 2000000", "chunk 64 of 2000000\n"),
        ("say one\nrun sleep 60", "one"),
    ],
    ids=["silent", "within a stream", "within a tool"],
)
def test_the_turn_ends_and_the_prompt_comes_next(
    daemon: DaemonProcess, repo: Path, prompt: str, said: str
) -> None:
    """The same agent, its command gone, goes on with what it was given; the run succeeds."""
    run = live.keep(daemon, repo, prompt)
    live.until_said(daemon, run, said)
    with daemon.client() as client:
        told = client.run.interrupt(run, "say instead")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert (told["turn"], told["already"], told["prompt"]) == (1, False, 2)
    assert live.turns(daemon, run) == [(1, 1, "cancelled"), (2, 2, "end_turn")]
    assert (result["outcome"], result["final_message"]) == ("succeeded", "instead")
    assert result["attempts"] == 1
    live.check(daemon, run)


@pytest.mark.parametrize("keep_queue", [False, True])
def test_what_waited_is_dropped_and_named_or_comes_after(
    daemon: DaemonProcess, repo: Path, keep_queue: bool
) -> None:
    """The prompt goes before those that wait; these are dropped unless they are to be kept."""
    run = live.keep(daemon, repo, "say one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.prompt(run, "say two\nand more")
        client.run.prompt(run, "say three")
        told = client.run.interrupt(run, "say four", keep_queue=keep_queue)
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    waited = [{"prompt": 2, "title": "say two"}, {"prompt": 3, "title": "say three"}]
    assert told["dropped"] == ([] if keep_queue else waited)
    assert [prompt for _, prompt, _ in live.turns(daemon, run)] == (
        [1, 4, 2, 3] if keep_queue else [1, 4]
    )
    assert result["final_message"] == ("three" if keep_queue else "four")
    live.check(daemon, run)


def test_no_more_wait_than_a_queue_holds(daemon: DaemonProcess, repo: Path) -> None:
    """Neither behind the turn nor, where what waits is kept, before all of them."""
    run = live.keep(daemon, repo, "sleep 30")
    live.until_turn(daemon, run, 1)
    with daemon.client() as client:
        for _ in range(MAX_QUEUED):
            client.run.prompt(run, "say more")
        behind = live.refused(client.run.prompt, run, "say more")
        before = live.refused(client.run.interrupt, run, "say more", keep_queue=True)
        instead = client.run.interrupt(run, "say instead")
    live.until_parked(daemon, run)
    live.close(daemon, run)

    assert [(each.name, each.detail["limit"]) for each in (behind, before)] == [("Busy", 64)] * 2
    assert len(instead["dropped"]) == MAX_QUEUED
    live.check(daemon, run)


def test_without_a_prompt_a_kept_run_parks(daemon: DaemonProcess, repo: Path) -> None:
    """Interrupted twice it is told to cancel once; closed then, its outcome is cancelled."""
    run = live.keep(daemon, repo, "say one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        first = client.run.interrupt(run)
        second = client.run.interrupt(run)
        parked = live.until_parked(daemon, run)
        third = client.run.interrupt(run)
    result = live.close(daemon, run)

    assert (first["turn"], first["already"]) == (1, False)
    assert second["already"]
    assert (third["turn"], third["already"]) == (None, True)
    assert parked["turn_stop_reason"] == "cancelled"
    assert (result["outcome"], result["stop_reason"]) == ("cancelled", "interrupted")
    live.check(daemon, run)


def test_a_run_that_is_not_kept_ends_cancelled(daemon: DaemonProcess, repo: Path) -> None:
    """Its only turn is over, with what it had done; a prompt on top is refused."""
    run = at.start(daemon, repo, "write a.txt x\nsay one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        error = live.refused(client.run.interrupt, run, "say two")
        client.run.interrupt(run)
    result = at.result(daemon, run)

    assert "takes one prompt only" in error.message
    assert (result["outcome"], result["stop_reason"]) == ("cancelled", "interrupted")
    assert [change["path"] for change in result["changed_files"]] == ["a.txt"]
    assert live.turns(daemon, run) == [(1, 1, "cancelled")]
    at.check_journal(daemon.events(run))


def test_a_question_is_taken_back(daemon: DaemonProcess, repo: Path) -> None:
    """Nobody needs to answer what the turn asked, and the next one asks anew."""
    run = live.keep(daemon, repo, "write a.txt x", permissions="ask")
    asked = at.until_asked(daemon, run)
    with daemon.client() as client:
        client.run.interrupt(run, "say two")
        live.until_parked(daemon, run)
        pending = client.permission.list(run)["permissions"]
        late = live.refused(client.permission.answer, asked, run=run, kind="allow")
    [resolved] = live.of_type(daemon, run, "permission.resolved")
    result = live.close(daemon, run)

    assert pending == []
    assert late.name == "Conflict"
    assert resolved["by"]["resolver"] == "interrupt"
    assert (result["outcome"], result["changed_files"]) == ("succeeded", [])
    live.check(daemon, run)


def test_an_agent_that_does_not_confirm_is_ended(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """After the limit the run ends as a cancel would end it, and says what was never told."""
    run = live.keep(daemon, repo, "deaf\nsay one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.interrupt(run, "say two")
    result = at.result(daemon, run)
    expired = live.of_type(daemon, run, "deadline.expired")

    assert (result["outcome"], result["stop_reason"]) == ("cancelled", "interrupt_unconfirmed")
    assert [event["which"] for event in expired] == ["interrupt"]
    assert result["warnings"] == ["a prompt was never given to the agent: the run ended first"]
    assert eventually(lambda: daemon.keepers() == [])
    live.check(daemon, run)


def test_a_cancel_while_an_interrupt_is_under_way_ends_the_run(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Whoever cancels waits for no turn: the outcome is that of the cancel."""
    run = live.keep(daemon, repo, "deaf\nsay one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.interrupt(run, "say two")
        client.run.cancel([run])
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("cancelled", "cancelled")
    live.check(daemon, run)


def test_an_interrupt_may_name_the_turn_that_it_means(daemon: DaemonProcess, repo: Path) -> None:
    """One that comes too late for its turn does not end another."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "say two\nsleep 60")
        live.until_said(daemon, run, "two")
        late = live.refused(client.run.interrupt, run, turn=1)
        told = client.run.interrupt(run, turn=2)
    live.until_parked(daemon, run)
    live.close(daemon, run)

    assert (late.name, late.detail["turn"]) == ("Conflict", 2)
    assert told["turn"] == 2
    live.check(daemon, run)


def test_on_a_parked_run_the_prompt_is_just_the_next(daemon: DaemonProcess, repo: Path) -> None:
    """Nothing runs that could be interrupted."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        told = client.run.interrupt(run, "say two")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert (told["turn"], told["prompt"], told["dropped"]) == (None, 2, [])
    assert live.turns(daemon, run) == [(1, 1, "end_turn"), (2, 2, "end_turn")]
    assert result["final_message"] == "two"


def test_before_its_first_turn_a_run_begins_with_the_other_prompt(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A queued run has no turn to end: without a prompt that is refused, with one it begins so."""
    (daemon.home / ".config" / "coachman").mkdir(parents=True)
    config = daemon.home / ".config" / "coachman" / "config.toml"
    config.write_text("[capacity]\nmax_active = 1\n")
    daemon.restart()
    first = at.start(daemon, repo, "say in\nsleep 60", task="t1")
    live.until_said(daemon, first, "in")
    run = live.keep(daemon, repo, "say one", task="t2")
    with daemon.client() as client:
        error = live.refused(client.run.interrupt, run)
        told = client.run.interrupt(run, "say two")
        client.run.cancel([first])
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert "its first turn has not begun" in error.message
    assert (told["turn"], told["dropped"]) == (None, [{"prompt": 1, "title": ""}])
    assert live.turns(daemon, run) == [(1, 2, "end_turn")]
    assert result["final_message"] == "two"


def test_an_interrupt_that_is_sent_again_ends_no_other_turn(
    daemon: DaemonProcess, repo: Path
) -> None:
    """With its key it is the same prompt: the turn that runs by then is that very one."""
    run = live.keep(daemon, repo, "say one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        first = client.run.interrupt(run, "say two\nsleep 60", request_key="k")
        live.until_said(daemon, run, "two")
        again = client.run.interrupt(run, "say two\nsleep 60", request_key="k")
        still = client.run.get(run)["state"]
        client.run.cancel([run])
        at.result(daemon, run)

    assert (first["turn"], first["prompt"]) == (1, 2)
    assert (again["turn"], again["already"], again["prompt"]) == (None, True, 2)
    assert still == "active"
    assert [e["turn"] for e in live.of_type(daemon, run, "turn.interrupted")] == [1]
