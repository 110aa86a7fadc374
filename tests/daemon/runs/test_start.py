"""What `run.start` accepts, refuses and repeats, through the socket of a real daemon."""

from pathlib import Path
from typing import Any

import pytest

import coachman
from daemon_process import DaemonProcess, git, make_repository


def start(client: coachman.Client, repo: Path, prompt: str = "say hi", **options: Any) -> Any:
    """Start a demo run."""
    return client.run.start(prompt, dir=str(repo), agent=options.pop("agent", "demo"), **options)


def refusal(client: coachman.Client, repo: Path, *args: Any, **options: Any) -> Any:
    """The error of a start that must be refused."""
    with pytest.raises(coachman.CoachmanError) as refused:
        start(client, repo, *args, **options)
    return refused.value


def test_the_same_request_key_returns_the_same_run(daemon: DaemonProcess, repo: Path) -> None:
    """A repeated start answers with the first run, also from the next daemon."""
    with daemon.client() as client:
        first = start(client, repo, task="t1", request_key="k")
    daemon.restart()
    with daemon.client() as client:
        again = start(client, repo, task="t1", request_key="k")

    assert again["run"] == first["run"]
    assert (first["new"], again["new"]) == (True, False)


def test_a_request_key_with_other_parameters_names_them(daemon: DaemonProcess, repo: Path) -> None:
    """The same key for another request is a Conflict that says what differs."""
    with daemon.client() as client:
        start(client, repo, request_key="k")
        error = refusal(client, repo, "say something else", request_key="k", labels={"a": "b"})

    assert error.name == "Conflict"
    assert error.detail["differs"] == ["labels", "prompt"]


def test_a_refused_start_frees_its_key_and_leaves_nothing(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A start that cannot be claims no key, makes no run directory and no task."""
    with daemon.client() as client:
        start(client, repo, "sleep 60", task="t1")
        error = refusal(client, repo, task="t1", request_key="k")
        accepted = start(client, repo, task="t2", request_key="k")

    assert error.name == "Conflict"
    assert accepted["task"] == "t2"
    assert len(list((daemon.state / "runs").iterdir())) == 2


def test_a_second_run_in_a_task_is_told_who_holds_it(daemon: DaemonProcess, repo: Path) -> None:
    """One writing run per task: the refusal names the holder and what to run next."""
    with daemon.client() as client:
        holder = start(client, repo, "sleep 60", task="t1")["run"]
        error = refusal(client, repo, task="t1")

    assert error.detail["holder"] == holder
    assert ["coachman", "wait", holder[-5:]] in error.next


def test_a_task_goes_on_where_the_last_run_left_it(daemon: DaemonProcess, repo: Path) -> None:
    """A second run sees the first one's work, and its own diff holds only its own."""
    with daemon.client() as client:
        first = start(client, repo, "write one.txt 1", task="t1")["run"]
        client.run.wait([first], timeout_s=180)
        second = start(client, repo, "write two.txt 2\nrun cat one.txt", task="t1")
        client.run.wait([second["run"]], timeout_s=180)
        own = client.run.diff(second["run"])["patch"]
        both = client.call("run.diff", {"task": "t1", "dir": str(repo)})["patch"]

    assert second["continuing"] == 1
    assert "two.txt" in own
    assert "one.txt" not in own
    assert "one.txt" in both
    assert "two.txt" in both


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"agent": "nobody"}, "no agent 'nobody'"),
        ({"profile": "hots"}, "no profile 'hots'"),
        ({"task": "Not A Name"}, "cannot name a task"),
        ({"effort": "gigantic"}, "no effort 'gigantic'"),
        ({"base": "no-such-branch"}, "no commit is named"),
        ({"prompt": "  "}, "prompt is empty"),
        ({"agent": "command"}, "needs a program"),
        ({"argv": ["ls"]}, "takes no program"),
        ({"agent": "command", "argv": ["ls"], "permissions": "ask"}, "never asks"),
        ({"permissions": "x"}, "`permissions` must be one of allow, ask, deny"),
        ({"agent": "command", "argv": ["a\0b"]}, "`argv` must be words without NUL"),
        ({"request_key": ""}, "`request_key` must be 1 to 256 characters"),
        ({"labels": {str(n): "" for n in range(65)}}, "`labels` must be at most 64"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_happens(
    daemon: DaemonProcess, repo: Path, options: dict[str, Any], words: str
) -> None:
    """Each refusal says what is wrong, and no run directory appears."""
    with daemon.client() as client:
        error = refusal(client, repo, options.pop("prompt", "say hi"), **options)

    assert words in str(error)
    assert list((daemon.state / "runs").iterdir()) == []


def test_a_folder_without_a_repository_is_named_with_ways_out(
    daemon: DaemonProcess, state_dir: Path
) -> None:
    """Outside a repository the refusal says how to make or name one."""
    with daemon.client() as client:
        error = refusal(client, state_dir)

    assert "no git repository" in str(error)
    assert "git init" in error.hint


def test_a_dry_run_decides_everything_and_does_nothing(daemon: DaemonProcess, repo: Path) -> None:
    """dry_run answers with the effective settings and the policy's digest; nothing is written."""
    with daemon.client() as client:
        answer = start(client, repo, task="t1", dry_run=True)
        real = start(client, repo, task="t1")
        client.run.wait([real["run"]], timeout_s=180)

    assert answer["dry_run"]
    started = next(e for e in daemon.events(real["run"]) if e["type"] == "run.started")
    assert answer["policy_digest"] == real["policy_digest"] == started["policy_digest"]
    assert [path.name for path in (daemon.state / "runs").iterdir()] == [real["run"]]


def test_uncommitted_changes_are_counted_and_left_out(daemon: DaemonProcess, repo: Path) -> None:
    """The base is the commit: what is not committed is counted in the answer, with a warning."""
    (repo / "a.txt").write_text("changed\n")
    (repo / "new.txt").write_text("new\n")
    with daemon.client() as client:
        answer = start(client, repo, "run cat a.txt")
        client.run.wait([answer["run"]], timeout_s=180)

    assert answer["uncommitted_left_out"] == 2
    assert any("2 uncommitted changes" in warning for warning in answer["warnings"])
    assert (repo / "a.txt").read_text() == "changed\n"


def test_the_agent_starts_in_the_callers_subfolder(daemon: DaemonProcess, repo: Path) -> None:
    """Started from a subfolder of the repository, the agent works in the same one."""
    with daemon.client() as client:
        run = start(client, repo / "sub", "write here.txt x")["run"]
        client.run.wait([run], timeout_s=180)
        changed = client.run.result(run)["changed_files"]

    assert [change["path"] for change in changed] == ["sub/here.txt"]


def test_references_are_handles_prefixes_tasks_and_the_newest(
    daemon: DaemonProcess, repo: Path
) -> None:
    """A run is found by id, handle, unique prefix, its task, and @; others get near names."""
    with daemon.client() as client:
        run = start(client, repo, task="parser")["run"]
        client.run.wait([run], timeout_s=180)
        found = [
            client.run.get(name, dir=str(repo))["run"]
            for name in (run, run[-5:], run[-5:-1], "parser", "@")
        ]
        with pytest.raises(coachman.CoachmanError) as unknown:
            client.run.get("parsr")

    assert found == [run] * 5
    assert unknown.value.name == "NotFound"
    assert unknown.value.next == [["coachman", "list", "-a"]]
    assert "parser" in unknown.value.hint


def test_runs_beyond_the_capacity_queue_and_no_wait_refuses(state_dir: Path) -> None:
    """With one slot a second run waits its turn; no_wait gets Busy with limit and active."""
    config = state_dir / "config.toml"
    config.write_text("[capacity]\nmax_active = 1\n")
    daemon = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)}).start()
    repo = make_repository(state_dir / "repo")
    try:
        with daemon.client() as client:
            first = start(client, repo, "sleep 60", task="t1")["run"]
            second = start(client, repo, "say hi", task="t2")["run"]
            busy = refusal(client, repo, task="t3", no_wait=True)
            state = client.run.get(second)["state"]
            client.run.cancel([first])
            waited = client.run.wait([second], timeout_s=180)["runs"][0]
    finally:
        daemon.tidy()

    assert busy.name == "Busy"
    assert (busy.detail["limit"], busy.retryable) == (1, True)
    assert state == "queued"
    assert waited["outcome"] == "succeeded"


def test_the_repository_is_only_ever_added_to(daemon: DaemonProcess, repo: Path) -> None:
    """HEAD, index, branches, stash and configuration are byte for byte as they were."""
    before = {path: path.read_bytes() for path in _own_files(repo)}
    with daemon.client() as client:
        run = start(client, repo, "write a.txt other\nrun git status", task="t1")["run"]
        client.run.wait([run], timeout_s=180)

    assert {path: path.read_bytes() for path in _own_files(repo)} == before
    assert git(repo, "for-each-ref", "--format=%(refname)").split() == [
        f"refs/coachman/run/{run}",
        "refs/heads/main",
    ]


def _own_files(repo: Path) -> list[Path]:
    names = ("HEAD", "index", "config", "refs/heads/main", "ORIG_HEAD", "packed-refs")
    return [path for name in names if (path := repo / ".git" / name).exists()]


def test_the_document_describes_every_method(daemon: DaemonProcess) -> None:
    """rpc.discover answers with an OpenRPC document that names each method with its parameters."""
    with daemon.client() as client:
        document = client.call("rpc.discover", {})

    methods = {method["name"]: method for method in document["methods"]}
    assert document["openrpc"].startswith("1.")
    assert {"run.start", "run.wait", "event.subscribe", "permission.answer"} <= set(methods)
    names = {param["name"] for param in methods["run.start"]["params"]}
    assert {"prompt", "dir", "timeouts", "request_key"} <= names
