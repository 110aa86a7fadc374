"""A run from its start to its end, through the socket of a real daemon."""

from collections.abc import Callable
from pathlib import Path

import pytest

import coachman
from daemon_process import DaemonProcess, git


def start(daemon: DaemonProcess, repo: Path, prompt: str, **options: object) -> str:
    """Start a demo run; its id."""
    with daemon.client() as client:
        return client.run.start(prompt, dir=str(repo), agent="demo", **options)["run"]


def test_a_run_works_in_its_own_worktree_and_its_result_says_what_it_did(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A bounded run ends succeeded, its work in the task's worktree, a ref and the diff."""
    run = start(daemon, repo, "say hello\nwrite new.txt some text\nsay done", task="t1")
    with daemon.client() as client:
        waited = client.run.wait([run], timeout_s=180)
        result = client.run.result(run)
        diff = client.run.diff("t1", dir=str(repo))

    assert waited["met"] == "ended"
    assert result["outcome"] == "succeeded"
    assert result["final_message"] == "done"
    assert [change["path"] for change in result["changed_files"]] == ["new.txt"]
    assert "+some text" in diff["patch"]
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "show", f"refs/coachman/run/{run}:new.txt") == "some text"
    assert not (daemon.state / "live" / run).exists()


def test_events_have_no_hole_and_end_with_the_one_terminal_record(
    daemon: DaemonProcess, repo: Path
) -> None:
    """``seq`` counts from 1 without a hole, ``n`` likewise, and run.ended is last and single."""
    run = start(daemon, repo, "chunks 50\nsay done")
    with daemon.client() as client, client.events(run) as stream:
        seen = list(stream)

    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    numbers = [event["n"] for event in seen if "n" in event]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [e["type"] for e in seen].count("run.ended") == 1
    assert seen[-1]["type"] == "run.ended"
    assert seen == daemon.events(run)


@pytest.mark.parametrize("kind", ["allow", "deny"])
def test_a_question_is_answered_once_from_another_connection(
    daemon: DaemonProcess, repo: Path, kind: str
) -> None:
    """With ask the run waits; the first answer counts, a second is told who was first."""
    run = start(daemon, repo, "write x.txt text\nsay done", permissions="ask", task="t1")
    with daemon.client() as client, daemon.client() as other:
        waited = client.run.wait([run], until="attention", timeout_s=180)
        asked = waited["runs"][0]["attention"]
        assert waited["met"] == "attention"
        assert client.run.get(run)["state"] == "waiting"
        other.permission.answer(asked["request"], kind=kind)
        with pytest.raises(coachman.CoachmanError) as refused:
            client.permission.answer(asked["request"], run=run, kind=kind)
        client.run.wait([run], timeout_s=180)
        changed = client.run.result(run)["changed_files"]
        [settled] = client.call("permission.list", {"run": run, "pending": False})["permissions"]

    assert settled["question"] == asked["question"]
    assert settled["resolved"]["kind"] == {"allow": "allow_once", "deny": "reject_once"}[kind]
    assert refused.value.name == "Conflict"
    assert [change["path"] for change in changed] == (["x.txt"] if kind == "allow" else [])


def test_a_question_that_nobody_answers_is_denied_at_its_deadline(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The permission's deadline denies, by the agent's own option, and the record says so."""
    run = start(
        daemon, repo, "write x.txt text\nsay done", permissions="ask", timeouts={"permission_s": 1}
    )
    with daemon.client() as client:
        client.run.wait([run], timeout_s=180)
        result = client.run.result(run)
    resolved = next(e for e in daemon.events(run) if e["type"] == "permission.resolved")

    assert resolved["outcome"] == "expired"
    assert resolved["kind"] == "reject_once"
    assert resolved["by"]["resolver"] == "deadline"
    assert result["changed_files"] == []


def test_a_cancelled_run_ends_with_its_processes(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Cancel ends a sleeping tool and the run is cancelled; to cancel again changes nothing."""
    run = start(daemon, repo, "say hi\nrun sleep 300\nsay done")
    with daemon.client() as client, client.events(run) as stream:
        next(event for event in stream if event["type"] == "permission.resolved")
        first = client.run.cancel([run])["runs"][0]
        waited = client.run.wait([run], timeout_s=180)
        again = client.run.cancel([run])["runs"][0]

    assert (first["already"], again["already"]) == (False, True)
    assert waited["runs"][0]["outcome"] == "cancelled"
    assert eventually(lambda: daemon.keepers() == [])


def test_the_wall_deadline_ends_a_run(daemon: DaemonProcess, repo: Path) -> None:
    """A run past its wall time ends timed_out and the deadline is on record."""
    run = start(daemon, repo, "sleep 300", timeouts={"wall_s": 1})
    with daemon.client() as client:
        waited = client.run.wait([run], timeout_s=180)["runs"][0]

    assert (waited["outcome"], waited["stop_reason"]) == ("timed_out", "wall")
    assert waited["exit_code"] == 124
    assert any(e["type"] == "deadline.expired" for e in daemon.events(run))
