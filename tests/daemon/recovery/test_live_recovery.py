"""Kept runs whose daemon is killed: nothing that was promised is lost, nothing is said twice."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess
from recovery_storm import check_replay


def check(daemon: DaemonProcess, run: str) -> None:
    live.check(daemon, run)
    check_replay(daemon, run, daemon.events(run))


def test_a_queue_outlives_the_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """Killed within a turn, what waits is told in its order by the next daemon."""
    run = live.keep(daemon, repo, "say one\nsleep 2")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.prompt(run, "say two")
        client.run.prompt(run, "say three")
    daemon.restart()
    with daemon.client() as client:
        queue = client.run.get(run)["queue"]
        client.run.prompt(run, "say four")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert [queued["prompt"] for queued in queue] == [2, 3]
    assert [prompt for _, prompt, _ in live.turns(daemon, run)] == [1, 2, 3, 4]
    assert (result["outcome"], result["final_message"]) == ("succeeded", "four")
    check(daemon, run)


def test_a_parked_run_outlives_the_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """The same agent is there: it holds no place, remembers its session and ends at a close."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    keepers = daemon.keepers()
    daemon.restart()
    with daemon.client() as client:
        state, active = client.run.get(run)["state"], client.daemon.status()["capacity"]["active"]
        client.run.prompt(run, "recall")
    live.until_parked(daemon, run)
    daemon.restart()
    result = live.close(daemon, run)

    assert (state, active) == ("parked", 0)
    assert (result["attempts"], result["final_message"]) == (1, "say one")
    assert len(keepers) == 1
    check(daemon, run)


def test_the_parking_deadline_outlives_the_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """What expired while no daemon lived is enforced by the next one."""
    run = live.keep(daemon, repo, timeouts={"parked_s": 1})
    live.until_parked(daemon, run)
    daemon.kill()
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("succeeded", "end_turn")
    assert [e["which"] for e in live.of_type(daemon, run, "deadline.expired")] == ["parked"]
    check(daemon, run)


def test_a_prompt_that_was_only_acknowledged_is_told(daemon: DaemonProcess, repo: Path) -> None:
    """Killed right behind the answer, the parked run begins with it in the next daemon's hands."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "say two")
        daemon.kill()
    daemon.start()
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert live.turns(daemon, run) == [(1, 1, "end_turn"), (2, 2, "end_turn")]
    assert result["final_message"] == "two"
    check(daemon, run)


def test_a_prompt_whose_line_was_torn_is_nobodys(daemon: DaemonProcess, repo: Path) -> None:
    """Its file alone promises nothing; the next prompt takes its number and its place."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    daemon.kill()
    (at.directory(daemon, run) / "prompts" / "2.md").write_text("say lost")
    daemon.start()
    with daemon.client() as client:
        told = client.run.prompt(run, "say two")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert told["prompt"] == 2
    assert (result["turns"], result["final_message"]) == (2, "two")
    check(daemon, run)


@pytest.mark.parametrize("told", [False, True], ids=["before the agent heard", "after it"])
def test_an_interrupt_outlives_the_daemon(daemon: DaemonProcess, repo: Path, told: bool) -> None:
    """Written down, it is carried out: the turn ends, and of the prompts comes the right one."""
    run = live.keep(daemon, repo, "say one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.prompt(run, "say two")
        if told:
            client.run.interrupt(run, "say three")
    daemon.kill()
    if not told:
        (at.directory(daemon, run) / "prompts" / "3.md").write_text("say three")
        by = {"resolver": "client"}
        at.add(daemon, run, "prompt.queued", prompt=3, title="say three", by=by, first=True)
        at.add(daemon, run, "prompt.dropped", prompt=2, title="say two", why="interrupt")
        at.add(daemon, run, "turn.interrupted", turn=1, by=by)
    daemon.start()
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert live.turns(daemon, run) == [(1, 1, "cancelled"), (2, 3, "end_turn")]
    assert result["final_message"] == "three"
    check(daemon, run)


def test_an_interrupt_that_is_not_confirmed_ends_the_run_under_the_next_daemon(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """The limit begins anew, and then it is enforced."""
    run = live.keep(daemon, repo, "deaf\nsay one\nsleep 60")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.interrupt(run)
    daemon.restart()
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("cancelled", "interrupt_unconfirmed")
    assert eventually(lambda: daemon.keepers() == [])
    live.check(daemon, run)


def test_a_close_outlives_the_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """Asked for within a turn, it comes behind what was queued, whoever carries it out."""
    run = live.keep(daemon, repo, "say one\nsleep 1")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.prompt(run, "say two")
        client.run.close([run])
    daemon.restart()
    result = at.result(daemon, run)

    assert (result["turns"], result["final_message"]) == (2, "two")
    check(daemon, run)


@pytest.mark.parametrize("last", ["turn.ended", "turn.recorded", "parked", "active"])
def test_a_journal_that_ends_between_two_turns_is_gone_on_with(
    daemon: DaemonProcess, repo: Path, last: str
) -> None:
    """Cut behind each line from a turn's end on, the run parks or begins what was promised."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    daemon.kill()
    if last in ("turn.ended", "turn.recorded"):
        at.cut(daemon, run, [e["type"] for e in daemon.events(run)].index(last) + 1)
    at.add(daemon, run, "prompt.queued", prompt=2, title="say two", by={})
    (at.directory(daemon, run) / "prompts" / "2.md").write_text("say two")
    if last == "active":
        at.add(daemon, run, "run.state", **{"from": "parked", "to": "active", "reason": "prompt"})
    daemon.start()
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert live.turns(daemon, run) == [(1, 1, "end_turn"), (2, 2, "end_turn")]
    assert result["final_message"] == "two"
    assert len(live.of_type(daemon, run, "turn.recorded")) == 2
    check(daemon, run)


@pytest.mark.parametrize("last", ["agent.input", "turn.started"])
def test_a_turn_whose_beginning_was_all_that_was_written_down_goes_on(
    daemon: DaemonProcess, repo: Path, last: str
) -> None:
    """The agent has the prompt: it is not told again, and what it said since is read."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "say two\nsleep 60")
    live.until_said(daemon, run, "two")
    daemon.kill()
    types = [event["type"] for event in daemon.events(run)]
    at.cut(daemon, run, types.index(last, types.index("prompt.queued")) + 1)
    daemon.start()
    live.until_said(daemon, run, "two")
    with daemon.client() as client:
        client.run.interrupt(run)
    live.until_parked(daemon, run)
    live.close(daemon, run)

    assert live.turns(daemon, run) == [(1, 1, "end_turn"), (2, 2, "cancelled")]
    check(daemon, run)


def test_a_checkpoint_holds_the_queue_and_the_turns(daemon: DaemonProcess, repo: Path) -> None:
    """Behind much output the next daemon begins at a checkpoint, and knows what it needs."""
    run = live.keep(daemon, repo, "say in\nsleep 0.5\nchunks 4000")
    live.until_said(daemon, run, "in")
    with daemon.client() as client:
        client.run.prompt(run, "say mark\nsleep 2")
        client.run.prompt(run, "say last")
        client.run.close([run])
    live.until_said(daemon, run, "mark")
    daemon.kill()
    saved = json.loads((at.attempt(daemon, run) / "checkpoint.json").read_bytes().splitlines()[0])
    daemon.start()
    result = at.result(daemon, run)

    view = saved["view"]
    assert (view["turn"], view["turn_over"], view["closing"]) == (1, True, True)
    assert [queued["number"] for queued in view["queue"]] == [2, 3]
    assert (saved["dialogue"]["turn"], saved["dialogue"]["ended"]) == (1, 1)
    assert live.turns(daemon, run) == [(n, n, "end_turn") for n in (1, 2, 3)]
    assert (result["outcome"], result["final_message"]) == ("succeeded", "last")
    check(daemon, run)


def test_an_agent_that_left_while_no_daemon_lived_ends_the_run(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """By its last turn, and what waited for a place is named as never told."""
    run = live.keep(daemon, repo, "say one\nleave 1")
    live.until_parked(daemon, run)
    daemon.kill()
    at.add(daemon, run, "prompt.queued", prompt=2, title="say two", by={})
    (at.directory(daemon, run) / "prompts" / "2.md").write_text("say two")
    eventually((at.attempt(daemon, run) / "exit.json").exists)
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["final_message"]) == ("succeeded", "one")
    assert len(result["warnings"]) == 1
    live.check(daemon, run)


def test_a_resumed_run_outlives_the_daemon(daemon: DaemonProcess, repo: Path) -> None:
    """Killed as soon as it was accepted, it goes on in the session that its record names."""
    first = at.start(daemon, repo, "say one")
    at.result(daemon, first)
    with daemon.client() as client:
        second = client.run.resume(first, "recall\nsleep 1")["run"]
    daemon.restart()
    result = at.result(daemon, second)

    assert (result["outcome"], result["final_message"]) == ("succeeded", "say one")
    assert result["resumed_from"] == first
    at.check_journal(daemon.events(second))
