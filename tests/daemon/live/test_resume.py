"""A run that has ended is gone on with in its exact session, or a refusal says why not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from coachman.wire import EXIT_STATE
from daemon_process import DaemonProcess


def ended(daemon: DaemonProcess, repo: Path, prompt: str = "say one", **options: Any) -> str:
    """A bounded demo run that is over; its id."""
    run = at.start(daemon, repo, prompt, **options)
    at.result(daemon, run)
    return run


def test_the_new_run_knows_what_the_old_one_was_asked(daemon: DaemonProcess, repo: Path) -> None:
    """Same session, task, worktree and home; a run, a record and a diff of its own."""
    first = ended(daemon, repo, "say one\nwrite a.txt x", task="t1")
    with daemon.client() as client:
        started = client.run.resume(first, "recall\nwrite b.txt y")
        result = at.result(daemon, started["run"])
        before = client.run.result(first)
        details = client.run.get(started["run"])

    assert started["resumed_from"] == details["resumed_from"] == result["resumed_from"] == first
    assert (started["task"], started["continuing"]) == ("t1", 1)
    assert started["worktree"] == before["worktree"]
    assert result["session"] == before["session"]
    assert (result["outcome"], result["final_message"]) == (
        "succeeded",
        "say one\nwrite a.txt x",
    )
    assert [change["path"] for change in result["changed_files"]] == ["b.txt"]


def test_it_inherits_everything_but_what_is_given(daemon: DaemonProcess, repo: Path) -> None:
    """Agent, model, effort, permissions, labels, limits, provider and keep are as they were."""
    options = {
        "model": "echo-large",
        "effort": "high",
        "provider": "acme",
        "permissions": "deny",
        "labels": {"a": "b"},
        "timeouts": {"wall_s": 500, "permission_s": 50, "parked_s": 5},
        "keep": True,
    }
    first = live.keep(daemon, repo, **{k: x for k, x in options.items() if k != "keep"})
    live.until_parked(daemon, first)
    live.close(daemon, first)
    with daemon.client() as client:
        again = client.run.resume(first, "say two", timeouts={"wall_s": 600})["run"]
        live.until_parked(daemon, again)
        live.close(daemon, again)
        bounded = client.run.resume(again, "say three", keep=False)["run"]
        at.result(daemon, bounded)
        old, new, last = (client.run.get(run)["request"] for run in (first, again, bounded))

    same = ("agent", "task", "worktree", "dir", "profile", "network", "policy_digest", "labels")
    for name in (*same, *(name for name in options if name not in ("timeouts", "keep"))):
        assert new[name] == old[name], name
    assert (new["wall_s"], new["permission_s"], new["parked_s"]) == (600, 50, 5)
    assert (old["keep"], new["keep"], last["keep"]) == (True, True, False)
    assert new["title"] == "say two"


def test_a_session_goes_on_over_several_runs(daemon: DaemonProcess, repo: Path) -> None:
    """Each counts its own tokens, and an early one can be gone on with as well."""
    first = ended(daemon, repo, "usage 10 5")
    with daemon.client() as client:
        second = client.run.resume(first, "usage 20 5")["run"]
        results = [at.result(daemon, run) for run in (first, second)]
        third = client.run.resume(first, "recall")["run"]
        last = at.result(daemon, third)

    assert [result["usage"]["total"] for result in results] == [15, 25]
    assert last["final_message"] == "usage 10 5\nusage 20 5"


def test_what_the_newest_run_of_the_session_counted_is_handed_on(
    daemon: DaemonProcess, repo: Path
) -> None:
    """An agent that counts per session is given its counters, also when an older run is named."""
    first = ended(daemon, repo, task="t1")
    with daemon.client() as client:
        second = client.run.resume(first, "say two")["run"]
        at.result(daemon, second)
        for run, count in ((first, 10), (second, 30)):
            path = at.directory(daemon, run) / "result.json"
            result = json.loads(path.read_bytes())
            path.write_text(json.dumps({**result, "session_counters": {"total": count}}))
        third = client.run.resume(first, "say three")["run"]
        at.result(daemon, third)
        request = client.run.get(third)["request"]

    assert request["session_counters"] == {"total": 30}


def test_a_prompt_for_a_run_that_has_ended_resumes_it(daemon: DaemonProcess, repo: Path) -> None:
    """The answer names the new run; with the same key it is the same one."""
    first = ended(daemon, repo)
    with daemon.client() as client:
        told = client.run.prompt(first, "recall", request_key="k")
        again = client.run.prompt(first, "recall", request_key="k")
    result = at.result(daemon, told["run"])

    assert (told["resumed"], told["new"], told["turn"]) == (True, True, 1)
    assert (again["run"], again["new"]) == (told["run"], False)
    assert (result["resumed_from"], result["final_message"]) == (first, "say one")


def test_a_prompt_that_resumed_a_kept_run_is_not_given_to_it_again(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Sent anew by the task's name, which by then means the run that it started."""
    first = live.keep(daemon, repo, "say one", task="t1")
    live.until_parked(daemon, first)
    live.close(daemon, first)
    with daemon.client() as client:
        told = client.run.prompt("t1", "say two", request_key="k", dir=str(repo))
        again = client.run.prompt("t1", "say two", request_key="k", dir=str(repo))
        live.until_parked(daemon, told["run"])
        later = client.run.prompt("t1", "say two", request_key="k", dir=str(repo))
    live.close(daemon, told["run"])

    assert [each["run"] for each in (again, later)] == [told["run"]] * 2
    assert [each["new"] for each in (told, again, later)] == [True, False, False]
    assert [prompt for _, prompt, _ in live.turns(daemon, told["run"])] == [1]


def test_one_key_resumes_once(daemon: DaemonProcess, repo: Path) -> None:
    """By the id and by the task's name; another prompt with that key is a conflict."""
    first = ended(daemon, repo, task="t1")
    with daemon.client() as client:
        told = client.run.resume(first, "say two", request_key="k")
        again = client.run.resume(first, "say two", request_key="k")
        by_task = client.run.resume("t1", "say two", request_key="k", dir=str(repo))
        other = live.refused(client.run.resume, first, "say three", request_key="k")
    at.result(daemon, told["run"])

    assert [a["run"] for a in (again, by_task)] == [told["run"]] * 2
    assert [a["new"] for a in (told, again, by_task)] == [True, False, False]
    assert other.detail["differs"] == ["prompt"]


def test_another_session_fails_the_run(daemon: DaemonProcess, repo: Path) -> None:
    """The agent opened one that was not asked for: the run says which, and did nothing in it.

    Whoever goes on from there still means the session that was wanted.
    """
    first = ended(daemon, repo, "say one\nmislay")
    with daemon.client() as client:
        second = client.run.resume(first, "write a.txt x")["run"]
        before, result = at.result(daemon, first), at.result(daemon, second)
        third = client.run.resume(second, "say three")["run"]
        wanted = client.run.get(third)["request"]["session"]
        at.result(daemon, third)

    assert (result["outcome"], result["stop_reason"]) == ("failed", "session_changed")
    assert before["session"] in result["error"]["message"]
    assert result["session"] in result["error"]["message"]
    assert result["session"] != before["session"] == wanted
    assert result["changed_files"] == []
    at.check_journal(daemon.events(second))


def refusal(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    with daemon.client() as client:
        error = live.refused(client.run.resume, run, "say more")
    assert error.exit_code == EXIT_STATE
    assert error.hint
    return {"message": error.message, **error.detail}


def test_a_run_that_lives_is_not_resumed(daemon: DaemonProcess, repo: Path) -> None:
    """At work or parked, it is to be waited for, prompted or closed."""
    run = live.keep(daemon, repo)
    live.until_parked(daemon, run)
    found = refusal(daemon, run)
    live.close(daemon, run)

    assert found["reason"] == "lives"


def test_a_task_in_which_another_run_works_is_not_taken(daemon: DaemonProcess, repo: Path) -> None:
    """One writer at a time: the holder is named."""
    first = ended(daemon, repo, task="t1")
    holder = live.keep(daemon, repo, task="t1")
    live.until_parked(daemon, holder)
    found = refusal(daemon, first)
    live.close(daemon, holder)

    assert found["holder"] == holder


def test_an_agent_that_cannot_resume_is_named(daemon: DaemonProcess, repo: Path) -> None:
    """A program has no session."""
    run = ended(daemon, repo, "", agent="command", argv=["true"])
    found = refusal(daemon, run)

    assert found["reason"] == "agent"
    assert "agent command" in found["message"]


def test_a_run_without_a_session_has_nothing_to_go_on_with(
    daemon: DaemonProcess, repo: Path
) -> None:
    """An agent that ended before it named one."""
    run = ended(daemon, repo, "say one", model="no-such-model")
    path = at.directory(daemon, run) / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "session": None}))

    assert refusal(daemon, run)["reason"] == "no_session"


@pytest.mark.parametrize(
    ("lost", "reason"), [("worktrees/*/t1", "no_worktree"), ("agents/*/t1", "no_home")]
)
def test_what_the_session_needs_must_be_there(
    daemon: DaemonProcess, repo: Path, lost: str, reason: str
) -> None:
    """Without its worktree or its home the session is another one, so it is refused."""
    run = ended(daemon, repo, task="t1")
    [path] = daemon.state.glob(lost)
    shutil.rmtree(path)

    assert refusal(daemon, run)["reason"] == reason


def test_another_boundary_is_refused(daemon: DaemonProcess, repo: Path) -> None:
    """The private home belongs to a policy: with another one the session would not be there."""
    run = ended(daemon, repo, task="t1")
    path = at.directory(daemon, run) / "request.json"
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps({**record, "policy_digest": "0" * 64}))
    found = refusal(daemon, run)

    assert (found["reason"], found["then"]) == ("policy", "0" * 64)
    assert found["now"] == record["policy_digest"]


@pytest.mark.parametrize(
    ("name", "other"),
    [("agent", "codex"), ("model", "echo-large"), ("provider", "acme"), ("profile", "review")],
)
def test_a_session_goes_on_as_it_was_begun_or_not_at_all(
    daemon: DaemonProcess, repo: Path, name: str, other: str
) -> None:
    """Who names what it is to have is refused where it had another; the same is no difference."""
    run = ended(daemon, repo, model="echo", provider="local")
    with daemon.client() as client:
        was = client.run.get(run)["request"][name]
        wanted: dict[str, Any] = {name: other}
        refused = live.refused(client.run.resume, run, "recall", **wanted)
        same: dict[str, Any] = {name: was}
        again = client.run.resume(run, "recall", **same)["run"]
    shown = daemon.cli("resume", run, "recall", f"--{name}", other, cwd=repo)

    assert (refused.name, refused.detail) == (
        "Conflict",
        {"reason": name, "then": was, "now": other},
    )
    assert at.result(daemon, again)["final_message"] == "say one"
    assert shown.returncode == EXIT_STATE
    assert f"the {name} {was}, not {other}" in shown.stderr


def test_another_tree_of_the_same_name_is_refused(daemon: DaemonProcess, repo: Path) -> None:
    """A task that was made anew since is not what the session knows."""
    run = ended(daemon, repo, task="t1")
    [path] = daemon.state.glob("tasks/*/t1.json")
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps({**record, "runs": []}))

    assert refusal(daemon, run)["reason"] == "tree"


def test_a_name_that_means_another_agent_by_now_is_refused(
    daemon: DaemonProcess, repo: Path
) -> None:
    """What was begun with one is never told to another."""
    config = daemon.root / "config.toml"
    config.write_text('[agents.mine]\nadapter = "demo"\n')
    daemon.env["COACHMAN_CONFIG"] = str(config)
    daemon.restart()
    run = ended(daemon, repo, agent="mine")
    config.write_text('[agents.mine]\nadapter = "codex"\n')
    daemon.restart()

    assert refusal(daemon, run)["reason"] == "agent"
