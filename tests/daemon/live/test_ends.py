"""How a kept run comes to its end: closed, forgotten, left by its agent, out of time."""

from collections.abc import Callable
from pathlib import Path

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess


def test_a_parked_run_is_closed_at_once(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Its agent is let go; to close it again changes nothing."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        [first] = client.run.close([run])["runs"]
        result = at.result(daemon, run, timeout_s=30)
        [again] = client.run.close([run])["runs"]

    assert (first["state"], first["already"]) == ("parked", False)
    assert (again["state"], again["already"]) == ("ended", True)
    assert (result["outcome"], result["exit"]["ended_by"]) == ("succeeded", "agent")
    assert eventually(lambda: daemon.keepers() == [])
    live.check(daemon, run)


def test_a_close_waits_for_the_turn_and_for_what_is_queued(
    daemon: DaemonProcess, repo: Path
) -> None:
    """What was promised is done first; after the close nothing more is taken."""
    run = live.keep(daemon, repo, "say one\nsleep 0.5")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.run.prompt(run, "say two")
        [first] = client.run.close([run])["runs"]
        [again] = client.run.close([run])["runs"]
        error = live.refused(client.run.prompt, run, "say three")
    result = at.result(daemon, run)

    assert (first["already"], again["already"]) == (False, True)
    assert "it is being closed" in error.message
    assert (result["turns"], result["final_message"]) == (2, "two")
    assert "parked" not in [e["to"] for e in live.of_type(daemon, run, "run.state")]
    live.check(daemon, run)


def test_a_run_that_is_not_kept_closes_by_itself(daemon: DaemonProcess, repo: Path) -> None:
    """Close is no error there, and does not end it before its time."""
    run = at.start(daemon, repo, "say one\nsleep 0.5\nsay two")
    with daemon.client() as client:
        [closed] = client.run.close([run])["runs"]
    result = at.result(daemon, run)

    assert closed["already"]
    assert (result["outcome"], result["final_message"]) == ("succeeded", "two")


def test_the_outcome_is_that_of_the_last_turn(daemon: DaemonProcess, repo: Path) -> None:
    """A turn that failed last fails the run, though others went well."""
    run = live.keep(daemon, repo, "write a.txt x\nsay one")
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "fail no more")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("failed", "error")
    assert result["error"]["message"] == "no more"
    assert result["final_message"] == ""


def test_a_run_that_nobody_prompts_is_closed_at_its_deadline(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The deadline is on record and told; the run ends as if it had been closed."""
    run = live.keep(daemon, repo, timeouts={"parked_s": 1})
    live.until_parked(daemon, run)
    with daemon.client() as client:
        deadlines = client.run.get(run)["deadlines"]
    result = at.result(daemon, run)
    [expired] = live.of_type(daemon, run, "deadline.expired")
    [closing] = live.of_type(daemon, run, "run.closing")

    assert expired["which"] == "parked"
    assert closing["by"]["resolver"] == "deadline"
    assert abs(deadlines["parked"] - expired["ts"]) < 1000
    assert (result["outcome"], result["stop_reason"]) == ("succeeded", "end_turn")


def test_a_prompt_in_time_puts_the_deadline_off(daemon: DaemonProcess, repo: Path) -> None:
    """It runs from the end of each turn anew, and never while one is at work."""
    run = live.keep(daemon, repo, timeouts={"parked_s": 1})
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "say two\nsleep 1.5\nsay still")
    result = at.result(daemon, run)

    assert live.turns(daemon, run) == [(1, 1, "end_turn"), (2, 2, "end_turn")]
    assert (result["outcome"], result["final_message"]) == ("succeeded", "still")


def test_an_agent_that_leaves_while_it_is_parked_ends_the_run(
    daemon: DaemonProcess, repo: Path
) -> None:
    """By its last turn, not as a failure: it had done what it was asked."""
    run = live.keep(daemon, repo, "say one\nleave 2")
    live.until_parked(daemon, run)
    result = at.result(daemon, run)

    assert (result["outcome"], result["final_message"]) == ("succeeded", "one")
    assert live.of_type(daemon, run, "run.closing") == []
    live.check(daemon, run)


def test_an_agent_that_leaves_within_a_turn_fails_the_run(
    daemon: DaemonProcess, repo: Path
) -> None:
    """What waited is never told, and the result says so."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "say two\nask me\nexit 3", request_key="two")
        client.run.prompt(run, "say three")
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("failed", "error")
    assert len(result["warnings"]) == 1
    assert [e["why"] for e in live.of_type(daemon, run, "prompt.dropped")] == ["run_ended"]
    live.check(daemon, run)


def test_the_wall_ends_a_parked_run_as_well(daemon: DaemonProcess, repo: Path) -> None:
    """It covers everything, and nothing extends it."""
    run = live.keep(daemon, repo, timeouts={"wall_s": 5})
    live.until_parked(daemon, run)
    result = at.result(daemon, run)

    assert (result["outcome"], result["stop_reason"]) == ("timed_out", "wall")


def test_a_cancel_ends_a_parked_run_and_one_within_a_turn(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Kept or not, a cancel is the end, within moments of the agent's confirmation."""
    parked = live.keep(daemon, repo, task="t1")
    live.until_parked(daemon, parked)
    at_work = live.keep(daemon, repo, "say in\nsleep 60", task="t2")
    live.until_said(daemon, at_work, "in")
    with daemon.client() as client:
        client.run.cancel([parked, at_work])
    results = [at.result(daemon, run, timeout_s=30) for run in (parked, at_work)]

    assert [result["outcome"] for result in results] == ["cancelled", "cancelled"]
    assert live.turns(daemon, at_work) == [(1, 1, "cancelled")]
    assert eventually(lambda: daemon.keepers() == [])


def test_a_daemon_that_drains_leaves_parked_runs_to_their_keepers(
    daemon: DaemonProcess, repo: Path
) -> None:
    """It waits for turns, takes no more prompts, and the next one finds the run as it was."""
    run = live.keep(daemon, repo, "say one\nsleep 1")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        client.daemon.shutdown("drain")
    assert daemon.process is not None
    daemon.process.wait(20)
    daemon.start()
    with daemon.client() as client:
        found = client.run.get(run)["state"]
        client.run.prompt(run, "say two")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert found == "parked"
    assert (result["turns"], result["final_message"]) == (2, "two")
    live.check(daemon, run)
