"""A provider's limit and agents that break: what is waited for, tried again, and given up."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess


@pytest.fixture(autouse=True)
def nothing_unexpected(state_dir: Path) -> Iterator[None]:
    """No run had to be taken up again because carrying it failed."""
    yield
    assert "run_failed" not in (state_dir / "daemon.log").read_text()


def states(daemon: DaemonProcess, run: str) -> list[str]:
    """The states that a run went through, in order; waiting ones with their reasons."""
    events = live.of_type(daemon, run, "run.state")
    return [e["to"] + f" {e['reason']}" * (e["to"] == "waiting") for e in events]


def sessions(daemon: DaemonProcess, run: str) -> set[str]:
    """Every session that the agent named."""
    return {e["session"] for e in live.of_type(daemon, run, "agent.session")}


def until_waiting(daemon: DaemonProcess, run: str, reason: str = "limit") -> dict[str, Any]:
    """The line that says that the run waits to go on."""
    return at.until_event(
        daemon,
        run,
        lambda e: e["type"] == "run.state" and (e["to"], e["reason"]) == ("waiting", reason),
    )


def test_a_limit_is_waited_for_and_the_session_goes_on(daemon: DaemonProcess, repo: Path) -> None:
    """The same session in a fresh process, the prompt told again, once the limit is over."""
    run = at.start(daemon, repo, "limit 3\nsay done\nrecall", task="t1")
    waited = until_waiting(daemon, run)
    shown = daemon.cli("list", cwd=repo).stdout
    with daemon.client() as client:
        row = client.run.get(run)
    result = at.result(daemon, run)
    [limit] = live.of_type(daemon, run, "limit.reached")
    first, second = live.of_type(daemon, run, "attempt.started")

    assert (result["outcome"], result["attempts"]) == ("succeeded", 2)
    assert limit["action"] == "wait"
    assert waited["until"]["epoch_ms"] >= limit["resets_at"]
    assert row["resumes_at"] == waited["until"]["epoch_ms"]
    assert "limited until" in shown
    assert second["ts"] >= limit["resets_at"]
    assert second["resumes"] == result["session"]
    assert len(sessions(daemon, run)) == 1
    # The session holds the prompt that was refused.
    assert result["final_message"].startswith("limit 3")
    assert states(daemon, run)[:6] == [
        "preparing", "active", "waiting limit", "preparing", "active", "stopping",
    ]  # fmt: skip
    assert (first["start"], result["base"]) == (second["start"], result["base"])
    at.check_journal(daemon.events(run))


def test_what_was_done_before_the_limit_stays_done(daemon: DaemonProcess, repo: Path) -> None:
    """A turn that had begun is gone on with by a word of its own, and the change is the run's."""
    run = at.start(daemon, repo, "write one.txt 1\nlimit 2")
    result = at.result(daemon, run)
    prompts = [e["prompt"] for e in live.of_type(daemon, run, "turn.started")]

    assert (result["outcome"], result["attempts"], prompts) == ("succeeded", 2, [1, 2])
    assert "The limit that stopped you is over" in result["final_message"]
    assert [change["path"] for change in result["changed_files"]] == ["one.txt"]


def test_waiting_for_a_limit_is_no_work(daemon: DaemonProcess, repo: Path) -> None:
    """Nor silence, nor the turn's time."""
    limits = {"work_s": 3, "stall_s": 2, "turn_s": 2}
    run = at.start(daemon, repo, "limit 5\nsay done", timeouts=limits)

    assert at.result(daemon, run)["outcome"] == "succeeded"


@pytest.mark.parametrize(
    ("prompt", "options", "known"),
    [
        ("limit 300", {"on_limit": "fail"}, True),
        ("limit 300", {"timeouts": {"wall_s": 60}}, True),
        ("limit", {"retries": 0}, False),
    ],
)
def test_a_limit_that_is_not_waited_for_ends_the_run(
    daemon: DaemonProcess, repo: Path, prompt: str, options: dict[str, Any], known: bool
) -> None:
    """As limited, with the moment where it is known, exit code 75, and at once."""
    run = at.start(daemon, repo, prompt, **options)
    result = at.result(daemon, run)
    [limit] = live.of_type(daemon, run, "limit.reached")
    with daemon.client() as client:
        [row] = client.run.wait([run])["runs"]

    assert (result["outcome"], result["stop_reason"]) == ("limited", "limited")
    assert (limit["action"], row["exit_code"]) == ("fail", 75)
    assert (result["resets_at"] is not None) is known
    assert result["resets_at"] == limit["resets_at"]
    assert result["attempts"] == 1


def test_a_limit_without_an_end_is_tried_a_few_times(daemon: DaemonProcess, repo: Path) -> None:
    """Each in an attempt of its own, later each time, and then the run is limited."""
    run = at.start(daemon, repo, "limit", retries=1)
    result = at.result(daemon, run)
    actions = [e["action"] for e in live.of_type(daemon, run, "limit.reached")]

    assert (result["outcome"], result["attempts"]) == ("limited", 2)
    assert (actions, result["resets_at"]) == (["wait", "fail"], None)
    at.check_journal(daemon.events(run))


def test_runs_of_the_same_account_wait_behind_it_and_others_pass(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The provider is not asked again before it takes more."""
    limited = at.start(daemon, repo, "limit 5\nsay one", task="t1")
    until_waiting(daemon, limited)
    same = at.start(daemon, repo, "say two", task="t2")
    other = at.start(daemon, repo, "", task="t3", agent="command", argv=["true"])

    assert at.result(daemon, other)["outcome"] == "succeeded"
    with daemon.client() as client:
        assert client.run.get(same)["state"] == "queued"
    for run in (limited, same):
        assert at.result(daemon, run)["outcome"] == "succeeded"
    [began] = live.of_type(daemon, same, "attempt.started")
    assert began["ts"] >= live.of_type(daemon, limited, "attempt.started")[1]["ts"]


def test_who_waits_behind_a_limit_is_told_so_and_does_so_after_a_restart(
    daemon: DaemonProcess, repo: Path
) -> None:
    """List, show and status name the moment; no run slips past it while a daemon starts."""
    limited = at.start(daemon, repo, "limit 300\nsay one", task="t1")
    until = until_waiting(daemon, limited)["until"]["epoch_ms"]
    behind = [at.start(daemon, repo, "say two", task=f"t{n}") for n in (2, 3)]
    for _ in range(2):
        with daemon.client() as client:
            rows = {row["run"]: row for row in client.run.list()["runs"]}
            status = client.daemon.status()
        listed = daemon.cli("list", cwd=repo).stdout
        told = daemon.cli("status").stdout
        shown = daemon.cli("show", "t3", "-q", cwd=repo).stdout
        daemon.restart()

        assert [rows[run]["held_until"] for run in [limited, *behind]] == [None, until, until]
        assert status["limits"] == [
            {"agent": "demo", "provider": "", "until": until, "queued": 2},
        ]
        assert listed.count("limited until") == 3
        assert "queued behind a limit of its provider" in listed
        assert "demo takes no more until " in told
        assert ": 2 runs wait in the queue\n" in told
        assert shown.startswith("limited until ")
    late = at.start(daemon, repo, "say three", task="t4")
    with daemon.client() as client:
        assert {client.run.get(run)["state"] for run in [*behind, late]} == {"queued"}
        client.run.cancel([limited])

    for run in [*behind, late]:
        assert at.result(daemon, run)["outcome"] == "succeeded"
    assert all(e["type"] != "attempt.started" for e in before_end_of(daemon, limited, behind))


def before_end_of(daemon: DaemonProcess, run: str, others: list[str]) -> list[dict[str, Any]]:
    """What had become of other runs when ``run`` was told to end."""
    stopping = next(e["ts"] for e in daemon.events(run) if e.get("to") == "stopping")
    return [e for other in others for e in daemon.events(other) if e["ts"] < stopping]


def test_a_cancel_ends_the_wait(daemon: DaemonProcess, repo: Path) -> None:
    """At once; and who waited behind it does not any more."""
    run = at.start(daemon, repo, "limit 300", task="t1")
    until_waiting(daemon, run)
    behind = at.start(daemon, repo, "say two", task="t2")
    with daemon.client() as client:
        client.run.cancel([run])

    assert at.result(daemon, run)["outcome"] == "cancelled"
    assert at.result(daemon, behind)["outcome"] == "succeeded"
    assert daemon.keepers() == []


def test_a_kept_run_waits_and_goes_on(daemon: DaemonProcess, repo: Path) -> None:
    """It takes prompts meanwhile; its turns, tokens and costs go on counting."""
    run = live.keep(daemon, repo, "say one\nusage 100 10")
    live.until_parked(daemon, run)
    with daemon.client() as client:
        client.run.prompt(run, "limit 3\nsay two\nusage 5 5")
        until_waiting(daemon, run)
        client.run.prompt(run, "say three")
    at.until_event(daemon, run, lambda e: e.get("text") == "three")
    live.until_parked(daemon, run)
    result = live.close(daemon, run)
    ends = [(e["turn"], e["stop_reason"]) for e in live.of_type(daemon, run, "turn.ended")]

    assert (result["outcome"], result["final_message"]) == ("succeeded", "three")
    assert ends == [(1, "end_turn"), (2, "limited"), (3, "end_turn"), (4, "end_turn")]
    assert len(sessions(daemon, run)) == 1
    assert result["usage"]["total"] == 120
    assert result["cost"]["usd"] == pytest.approx(0.000120)
    at.check_journal(daemon.events(run))


def test_interrupts_of_a_waiting_run_are_bounded_like_prompts(
    daemon: DaemonProcess, repo: Path
) -> None:
    """None of what is to be tried again is dropped, so that at most so many may come before it."""
    run = live.keep(daemon, repo, "limit 300")
    until_waiting(daemon, run)
    with daemon.client() as client:
        waiting = len(client.run.get(run)["queue"])
        for number in range(64 - waiting):
            client.run.interrupt(run, f"say {number}")
        refused = live.refused(client.run.interrupt, run, "say one too many")
        queue = client.run.get(run)["queue"]
        client.run.interrupt(run)
        client.run.cancel([run])

    assert (refused.name, refused.detail) == ("Busy", {"limit": 64})
    assert (len(queue), queue[0]["title"]) == (64, f"say {63 - waiting}")
    assert at.result(daemon, run)["outcome"] == "cancelled"


@pytest.mark.parametrize("killed_for_s", [0, 4])
def test_a_wait_outlives_its_daemon(daemon: DaemonProcess, repo: Path, killed_for_s: float) -> None:
    """The next one waits for the same moment, also one that has passed meanwhile."""
    run = at.start(daemon, repo, "limit 4\nsay done")
    until_waiting(daemon, run)
    daemon.kill()
    time.sleep(killed_for_s)
    daemon.start()
    result = at.result(daemon, run)

    assert (result["outcome"], result["attempts"]) == ("succeeded", 2)
    assert len(live.of_type(daemon, run, "limit.reached")) == 1
    assert daemon.keepers() == []
    at.check_journal(daemon.events(run))


# --- what broke ------------------------------------------------------------------------


def test_an_agent_that_broke_before_its_first_word_is_tried_again(
    daemon: DaemonProcess, repo: Path
) -> None:
    """In a fresh process, with the same prompt; nothing of the first attempt counts."""
    run = at.start(daemon, repo, "crash\nsay done")
    result = at.result(daemon, run)
    attempts = live.of_type(daemon, run, "attempt.started")
    ended = live.of_type(daemon, run, "attempt.ended")

    assert (result["outcome"], result["final_message"]) == ("succeeded", "done")
    assert [e["why"] for e in attempts] == ["first", "the agent broke"]
    assert ended[0]["exit"]["signal"] == 9
    assert "waiting retry" in states(daemon, run)
    at.check_journal(daemon.events(run))


def test_it_is_not_tried_for_ever(daemon: DaemonProcess, repo: Path) -> None:
    """After so many times its death is the run's end, and says how it died."""
    run = at.start(daemon, repo, "crash 9", retries=1)
    result = at.result(daemon, run)

    assert (result["outcome"], result["attempts"]) == ("failed", 2)
    assert "signal 9" in result["error"]["message"]


@pytest.mark.parametrize("prompt", ["say one\ncrash", "write a.txt x\ncrash", "exit 3", "fail x"])
def test_what_had_begun_or_failed_by_itself_is_not_tried_again(
    daemon: DaemonProcess, repo: Path, prompt: str
) -> None:
    """A prompt is told twice only where the first time nothing came of it."""
    run = at.start(daemon, repo, prompt)
    result = at.result(daemon, run)

    assert (result["outcome"], result["attempts"]) == ("failed", 1)


def test_a_program_is_run_once(daemon: DaemonProcess, repo: Path) -> None:
    """Whatever kills it: what it did before nobody knows."""
    argv = ["sh", "-c", "kill -9 $$"]
    run = at.start(daemon, repo, "", agent="command", argv=argv)
    result = at.result(daemon, run)

    assert (result["outcome"], result["attempts"]) == ("failed", 1)


def test_the_command_line_says_what_is_waited_for(daemon: DaemonProcess, repo: Path) -> None:
    """A foreground run tells of the limit and of when it goes on, and waits with it."""
    ran = daemon.cli("run", "-a", "demo", "limit 2\nsay done", cwd=repo)
    failed = daemon.cli(
        "run", "-a", "demo", "--on-limit", "fail", "-t", "t2", "limit 200", cwd=repo
    )
    result = json.loads(daemon.cli("result", "t2", "--json", cwd=repo).stdout)

    assert ran.returncode == 0, ran.stderr
    assert "done" in ran.stdout
    assert "  [a limit of demo is reached]\n" in ran.stderr
    assert "  [the provider takes no more for now: waiting until " in ran.stderr
    assert ", then the prompt is sent again]\n" in ran.stderr
    assert "queued" not in ran.stderr
    assert failed.returncode == 75
    assert result["resets_at"] > time.time() * 1000


def test_waiting_for_a_prompts_turn_waits_for_the_limit_as_well(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A turn that is gone on with is not over, whichever prompt it goes on with."""
    live.until_parked(daemon, live.keep(daemon, repo, "say one", task="t1"))
    whole = daemon.cli("prompt", "t1", "--wait", "limit 2\nsay two", cwd=repo)
    begun = daemon.cli("prompt", "t1", "--wait", "say half\nlimit 3", cwd=repo)
    shown = daemon.cli("show", "t1", cwd=repo)

    assert (whole.returncode, begun.returncode) == (0, 0)
    assert "two" in whole.stdout
    assert "Go on with what you were asked to do" in begun.stdout
    assert "ends (wall)" in shown.stdout


def test_a_draining_daemon_does_not_stay_for_a_limit(daemon: DaemonProcess, repo: Path) -> None:
    """Nobody is in a turn; the next daemon waits for what is left of it."""
    run = at.start(daemon, repo, "limit 8\nsay done")
    until_waiting(daemon, run)
    at.until_event(daemon, run, lambda e: e["type"] == "attempt.ended")
    with daemon.client() as client:
        client.daemon.shutdown("drain")
    assert daemon.process is not None
    daemon.process.wait(6)
    daemon.start()

    assert at.result(daemon, run)["outcome"] == "succeeded"
