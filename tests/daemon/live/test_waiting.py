"""Waiting for runs: what is pushed, and what a run needs a person for."""

import json
from pathlib import Path

import live_runs as live
import recovery_state as at
from coachmand.runs.reading.attention import attention_of, next_of
from coachmand.runs.reading.view import View
from daemon_process import DaemonProcess


def test_a_silent_agent_needs_somebody_before_it_is_ended(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Who waits for attention hears of it, with the moment of its end, when that is near."""
    run = at.start(daemon, repo, "say one\nsleep 60", timeouts={"stall_s": 15})
    with daemon.client() as client:
        waited = client.run.wait([run], until="attention", timeout_s=40)
        [listed] = client.run.list(attention=True)["runs"]
        client.run.cancel([run])
    [row] = waited["runs"]
    [warned] = live.of_type(daemon, run, "deadline.warned")
    attention = row["attention"]

    assert (waited["met"], row["met"]) == ("attention", "attention")
    assert attention is not None
    assert (attention["kind"], attention["deadline"]) == ("stall", warned["deadline"])
    assert listed["attention"] == attention
    assert row["next"] == [["coachman", "log", run[-5:]], ["coachman", "interrupt", run[-5:]]]


def test_a_word_of_the_agent_ends_the_need() -> None:
    """It was silent, it is about to be ended, it speaks: nobody is needed any more."""
    view = View(state="active")
    view.apply({"type": "deadline.warned", "which": "stall", "deadline": 9, "seq": 1, "ts": 1})
    silent = attention_of(view)
    view.apply({"type": "agent.message_chunk", "text": "here", "seq": 2, "ts": 2, "n": 1})

    assert silent is not None
    assert (silent["kind"], silent["deadline"]) == ("stall", 9)
    assert attention_of(view) is None


def test_a_full_disk_needs_somebody() -> None:
    """A run that is held for want of room says so, and where to look."""
    attention = attention_of(View(state="waiting", reason="storage"))

    assert attention is not None
    assert (attention["kind"], attention["options"]) == ("storage", [])
    assert next_of("k7q3x", attention) == [["coachman", "status"], ["coachman", "cleanup"]]


def test_who_waits_is_told_that_nothing_will_happen(daemon: DaemonProcess, repo: Path) -> None:
    """Once all that has not ended is parked; a prompt that is queued is something to come."""
    ended = at.start(daemon, repo, "say done", task="t0")
    run = live.keep(daemon, repo, "say one", task="t1")
    with daemon.client() as client:
        idle = client.run.wait([ended, run], idle=True, timeout_s=30)
        client.run.prompt(run, "say two\nsleep 60")
        live.until_said(daemon, run, "two")
        busy = client.run.wait([ended, run], idle=True, timeout_s=0)
        client.run.cancel([run])
        over = client.run.wait([ended, run], idle=True, timeout_s=30)

    assert idle["met"] == "idle"
    assert {row["run"]: row["state"] for row in idle["runs"]} == {ended: "ended", run: "parked"}
    assert busy["met"] == "timeout"
    assert over["met"] == "ended"


def test_several_runs_are_waited_for_at_once(daemon: DaemonProcess, repo: Path) -> None:
    """All of them or any; each row says what it met, what its run is at and what comes next."""
    quick = at.start(daemon, repo, "say done", task="t0")
    slow = at.start(daemon, repo, "say begun\nrun sleep 60", task="t1")
    live.until_said(daemon, slow, "begun")
    with daemon.client() as client:
        first = client.run.wait([quick, slow], any=True, timeout_s=30)
        both = client.run.wait([quick, slow], timeout_s=0.2)
        client.run.cancel([slow])
    rows = {row["run"]: row for row in first["runs"]}

    assert (first["met"], both["met"]) == ("ended", "timeout")
    assert (rows[quick]["met"], rows[slow]["met"]) == ("ended", None)
    assert rows[quick]["outcome"] == "succeeded"
    assert rows[slow]["seconds_since_event"] is not None
    assert rows[quick]["next"]


def test_runs_are_selected_by_what_they_are(daemon: DaemonProcess, repo: Path) -> None:
    """Labels, states, the repository: all living runs that fit, for waiting and for ending."""
    mine = [
        live.keep(daemon, repo, "say one", task=f"t{n}", labels={"team": "a"}) for n in range(2)
    ]
    other = live.keep(daemon, repo, "say one", task="t9", labels={"team": "b"})
    for run in (*mine, other):
        live.until_parked(daemon, run)

    def rows(*words: str, code: int = 0) -> list[str]:
        done = daemon.cli(*words, "--json", cwd=repo)
        assert done.returncode == code, done.stdout
        return sorted(row["run"] for row in json.loads(done.stdout)["runs"])

    waited = rows("wait", "-l", "team=a", "--until", "turn")
    parked = rows("wait", "--here", "--state", "parked", "--timeout", "1s", code=11)
    both = rows("wait", other, "-l", "team=a", "--until", "turn")
    closed = rows("close", "-l", "team=a")
    cancelled = rows("cancel", "--here")
    at.result(daemon, other)
    nothing = daemon.cli("cancel", "-l", "team=c", cwd=repo)
    unsaid = daemon.cli("cancel", cwd=repo)

    assert waited == closed == sorted(mine)
    assert parked == both == sorted([*mine, other])
    assert other in cancelled
    assert (nothing.returncode, unsaid.returncode) == (66, 64)
