"""A kept run takes prompts, one after another, and parks between them."""

from collections.abc import Callable
from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
from coachman.wire import EXIT_STATE, EXIT_USAGE
from daemon_process import DaemonProcess, git


def test_a_kept_run_parks_and_goes_on_with_the_next_prompt(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Its process lives through its turns, and what it says of itself is of the last one."""
    run = live.keep(daemon, repo, "say one\nwrite a.txt changed")
    first = live.until_parked(daemon, run)
    keepers = daemon.keepers()
    with daemon.client() as client:
        prompted = client.run.prompt(run, "recall\nrefuse")
        parked = live.until_parked(daemon, run)
        client.run.prompt(run, "say three")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert (first["turn"], first["turn_stop_reason"]) == (1, "end_turn")
    assert (prompted["turn"], prompted["ahead"], prompted["waits_for"]) == (2, 0, None)
    assert (parked["turn"], parked["turn_stop_reason"]) == (2, "refusal")
    assert live.turns(daemon, run) == [(1, 1, "end_turn"), (2, 2, "refusal"), (3, 3, "end_turn")]
    assert (result["outcome"], result["final_message"]) == ("succeeded", "three")
    assert (result["turns"], result["attempts"]) == (3, 1)
    assert len(keepers) == 1
    live.check(daemon, run)


def test_prompts_wait_for_their_turn_in_the_order_in_which_they_came(
    daemon: DaemonProcess, repo: Path
) -> None:
    """While a turn runs a prompt is queued behind it and those before, and shown as waiting."""
    run = live.keep(daemon, repo, "say one\nsleep 0.5")
    live.until_said(daemon, run, "one")
    with daemon.client() as client:
        told = [client.run.prompt(run, f"say {word}\nsecond line") for word in ("two", "three")]
        shown = client.run.get(run)
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert [(t["prompt"], t["turn"], t["ahead"], t["waits_for"]) for t in told] == [
        (2, 2, 1, "turn"),
        (3, 3, 2, "turn"),
    ]
    assert shown["queue"] == [
        {"prompt": 2, "title": "say two"},
        {"prompt": 3, "title": "say three"},
    ]
    assert shown["queued_prompts"] == 2
    assert [prompt for _, prompt, _ in live.turns(daemon, run)] == [1, 2, 3]
    assert result["final_message"] == "second line"
    live.check(daemon, run)


def test_a_prompt_is_on_disk_before_it_is_acknowledged(daemon: DaemonProcess, repo: Path) -> None:
    """Its text has a file, its line is in the journal, and no other daemon is needed for both."""
    run = live.keep(daemon, repo, "sleep 30")
    live.until_turn(daemon, run, 1)
    with daemon.client() as client:
        client.run.prompt(run, "say é\n𝄞")
    daemon.kill()
    [queued] = live.of_type(daemon, run, "prompt.queued")

    assert (queued["prompt"], queued["title"]) == (2, "say é")
    assert (at.directory(daemon, run) / "prompts" / "2.md").read_text() == "say é\n𝄞"


def test_a_parked_run_holds_no_place_and_waits_for_one_like_any_other(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """With one place, another run goes in while it is parked; its next turn comes after that."""
    (daemon.home / ".config" / "coachman").mkdir(parents=True)
    config = daemon.home / ".config" / "coachman" / "config.toml"
    config.write_text("[capacity]\nmax_active = 1\n")
    daemon.restart()
    run = live.keep(daemon, repo, "say one", task="t1")
    live.until_parked(daemon, run)
    other = at.start(daemon, repo, "say in\nsleep 1", task="t2")
    live.until_said(daemon, other, "in")
    with daemon.client() as client:
        prompted = client.run.prompt(run, "say two")
        waiting = client.run.get(run)["state"]
        unmet = client.run.wait([run], until="turn", timeout_s=0)["met"]
    ended = at.result(daemon, other)
    parked = live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert (prompted["waits_for"], waiting, unmet) == ("place", "parked", "timeout")
    assert ended["ended_at"] <= live.of_type(daemon, run, "turn.started")[1]["ts"]
    assert parked["turn"] == 2
    assert result["final_message"] == "two"


def test_the_tree_at_each_turns_end_is_a_commit(daemon: DaemonProcess, repo: Path) -> None:
    """The run's ref follows its turns, and the diff of a parked run is what it changed so far."""
    run = live.keep(daemon, repo, "write a.txt one")
    live.until_parked(daemon, run)
    first = git(repo, "show", f"refs/coachman/run/{run}:a.txt")
    with daemon.client() as client:
        changes = client.run.get(run)["changes"]
        client.run.prompt(run, "write b.txt two")
        live.until_parked(daemon, run)
        diff = client.run.diff(run)
    second = git(repo, "show", f"refs/coachman/run/{run}:b.txt")
    recorded = live.of_type(daemon, run, "turn.recorded")
    live.close(daemon, run)

    assert (first, second) == ("one", "two")
    assert changes == {"files": 1, "added": 1, "removed": 1}
    assert [change["path"] for change in diff["files"]] == ["a.txt", "b.txt"]
    assert [event["changes"]["files"] for event in recorded] == [1, 2]


def test_the_same_key_gives_a_prompt_once(daemon: DaemonProcess, repo: Path) -> None:
    """Sent again, also after its turn and after the end, a prompt is the one that it was."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        first = client.run.prompt(run, "say two", request_key="k")
        again = client.run.prompt(run, "say two", request_key="k")
        live.until_parked(daemon, run)
        daemon.restart()
        later = client.run.prompt(run, "say two", request_key="k")
        result = live.close(daemon, run)
        at_last = client.run.prompt(run, "say two", request_key="k")

    told = (first, again, later, at_last)
    assert [answer["prompt"] for answer in told] == [2, 2, 2, 2]
    assert [answer["new"] for answer in told] == [True, False, False, False]
    assert [answer["run"] for answer in told] == [run] * 4
    assert result["turns"] == 2


def test_wait_until_turn_is_about_what_ends_from_now_on(daemon: DaemonProcess, repo: Path) -> None:
    """A turn that was over before is not waited for again while another one runs."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "sleep 0.5\nfail it broke")
        live.until_turn(daemon, run, 2)
        running = client.run.wait([run], until="turn", timeout_s=0)
        ended = client.run.wait([run], until="turn", timeout_s=live.WAIT_S)

    assert running["met"] == "timeout"
    assert (ended["met"], ended["runs"][0]["turn_stop_reason"]) == ("turn", "error")
    live.close(daemon, run)


def test_a_run_that_is_not_kept_takes_no_prompt(daemon: DaemonProcess, repo: Path) -> None:
    """While it lives that is a conflict which says how to have it otherwise."""
    run = at.start(daemon, repo, "say one\nsleep 30")
    with daemon.client() as client:
        error = live.refused(client.run.prompt, run, "say two")
        client.run.cancel([run])

    assert error.exit_code == EXIT_STATE
    assert "takes one prompt only" in error.message
    assert error.next == [["coachman", "wait", run[-5:]]]


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"agent": "command", "argv": ["true"], "keep": True}, "cannot be kept", "demo"),
        ({"agent": "demo", "as_agent": "reviewer"}, "no agents of its own", "leave --as out"),
    ],
)
def test_what_an_agent_cannot_do_is_refused_before_it_starts(
    daemon: DaemonProcess, repo: Path, options: dict[str, object], message: str, hint: str
) -> None:
    """The refusal names what is wrong and, where there are any, the agents that can."""
    with daemon.client() as client:
        error = live.refused(client.run.start, "x", dir=str(repo), **options)

    assert error.exit_code == EXIT_USAGE
    assert message in error.message
    assert hint in (error.hint or "")
    assert list((daemon.state / "runs").iterdir()) == []


def test_provider_and_agent_of_the_cli_are_recorded(daemon: DaemonProcess, repo: Path) -> None:
    """What was asked for stands in the run's record, for the adapter and for whoever resumes."""
    run = live.keep(daemon, repo, provider="acme")
    live.until_parked(daemon, run)
    with daemon.client() as client:
        request = client.run.get(run)["request"]

    assert (request["provider"], request["as_agent"], request["keep"]) == ("acme", None, True)
    live.close(daemon, run)


def test_a_question_in_a_later_turn_waits_and_is_answered(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Each turn goes through waiting by itself, and denied is judged by the last turn alone."""
    run = live.keep(daemon, repo, "write a.txt x", permissions="ask")
    first = at.until_asked(daemon, run)
    with daemon.client() as client:
        client.permission.answer(first, run=run, kind="deny")
        live.until_parked(daemon, run)
        client.run.prompt(run, "write a.txt y\nsay done")
        second = at.until_asked(daemon, run)
        client.permission.answer(second, run=run, kind="allow")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)

    assert first != second
    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")
    assert result["permissions_decided"] == {"allowed": 1, "denied": 1}
    live.check(daemon, run)
