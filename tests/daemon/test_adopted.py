"""A session that was begun by hand is gone on with in a copy: that one, and exactly that one."""

import json
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from coachman_adapters.claude.agent import CLAUDE
from coachman_adapters.codex.agent import CODEX
from coachman_adapters.demo import DEMO
from coachman_adapters.pi.agent import PI
from coachmand.rpc.errors import RpcError
from coachmand.runs.adopted import find_session
from coachmand.runs.request import StartRequest
from daemon_process import DaemonProcess

BY_HAND = "demo-0123456789abcdef"
OTHER = "demo-fedcba9876543210"


def begin(daemon: DaemonProcess, session: str = BY_HAND) -> Path:
    """A session of the demo agent in the user's own home, as the agent leaves it there."""
    path = daemon.home / ".demo-agent" / "sessions" / f"{session}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {
        "id": session,
        "cwd": "/elsewhere",
        "turns": 1,
        "history": [["user", "u0", f"by hand in {session}"]],
    }
    path.write_text(json.dumps({**told, "model": "echo", "effort": "low", "cost": 0.0}))
    return path


def refused(daemon: DaemonProcess, repo: Path, **options: Any) -> Any:
    options = {"agent": "demo", "session": BY_HAND, **options}
    with daemon.client() as client:
        return live.refused(client.run.start, "recall", dir=str(repo), **options)


def test_the_run_knows_what_was_said_by_hand(daemon: DaemonProcess, repo: Path) -> None:
    """It is in the very session; the user's own files stay as they are, no other one is copied."""
    path = begin(daemon)
    begin(daemon, OTHER)
    before = path.read_bytes()
    first = at.start(daemon, repo, "recall", session=BY_HAND, task="t1")
    result = at.result(daemon, first)
    copied = {found.name for found in daemon.state.glob("agents/*/t1/*/.demo-agent/sessions/*")}

    assert (result["outcome"], result["session"]) == ("succeeded", BY_HAND)
    assert result["final_message"] == f"by hand in {BY_HAND}"
    assert result["resumed_from"] is None
    assert path.read_bytes() == before
    assert copied == {f"{BY_HAND}.json"}


def test_what_a_run_added_is_gone_on_with(daemon: DaemonProcess, repo: Path) -> None:
    """Resumed, or begun with the same session in the same task: the copy is not made anew."""
    begin(daemon)
    first = at.start(daemon, repo, "say one", session=BY_HAND, task="t1")
    at.result(daemon, first)
    with daemon.client() as client:
        resumed = client.run.resume(first, "recall")["run"]
        told = at.result(daemon, resumed)["final_message"]
    again = at.start(daemon, repo, "recall", session=BY_HAND, task="t1")
    elsewhere = at.start(daemon, repo, "recall", session=BY_HAND, task="t2")

    assert told == f"by hand in {BY_HAND}\nsay one"
    assert at.result(daemon, again)["final_message"] == f"{told}\nrecall"
    assert at.result(daemon, elsewhere)["final_message"] == f"by hand in {BY_HAND}"


def test_the_command_line_takes_one_up(daemon: DaemonProcess, repo: Path) -> None:
    """By its id, as the agent tells it."""
    begin(daemon)
    done = daemon.cli("run", "-a", "demo", "--session", BY_HAND, "recall", cwd=repo)

    assert (done.returncode, done.stdout) == (0, f"by hand in {BY_HAND}\n")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"session": OTHER}, "no_session"),
        ({"session": "*"}, "no_session"),
        ({"session": "../../etc/passwd"}, "no_session"),
        ({"session": "demo-????????????????"}, "no_session"),
        ({"agent": "command", "argv": ["true"]}, "agent"),
    ],
)
def test_what_cannot_be_taken_up_is_refused(
    daemon: DaemonProcess, repo: Path, options: dict[str, Any], reason: str
) -> None:
    """Before anything is made, with the reason."""
    begin(daemon)
    error = refused(daemon, repo, **options)

    assert (error.name, error.detail) == ("InvalidParams", {"reason": reason})
    assert not list(daemon.state.glob("runs/*"))


def test_a_link_in_the_home_is_followed_nowhere(daemon: DaemonProcess, repo: Path) -> None:
    """An agent that leaves a link where the copy goes gets the copy in its place."""
    begin(daemon)
    first = at.start(
        daemon, repo, "run ln -s /etc $HOME/.demo-agent/sessions-of && true", task="t1"
    )
    at.result(daemon, first)
    [home] = daemon.state.glob("agents/*/t1/*")
    sessions = home / ".demo-agent" / "sessions"
    for path in sessions.iterdir():
        path.unlink()
    sessions.rmdir()
    target = daemon.root / "outside"
    target.mkdir()
    sessions.symlink_to(target)
    again = at.start(daemon, repo, "recall", session=BY_HAND, task="t1")

    assert at.result(daemon, again)["final_message"] == f"by hand in {BY_HAND}"
    assert list(target.iterdir()) == []


def test_a_sealed_run_inherits_no_session(tmp_path: Path) -> None:
    """Nothing of the user's own gets into one."""
    request = StartRequest(dir="/", session=BY_HAND)
    with pytest.raises(RpcError) as refusal:
        find_session(request, "demo", DEMO.spec, "sealed", {"HOME": str(tmp_path)})

    assert refusal.value.data["detail"] == {"reason": "profile"}


@pytest.mark.parametrize(
    ("adapter", "path", "cwd", "placed"),
    [
        (CLAUDE, "projects/-src-app/ID.jsonl", "/workspace", "projects/-workspace/ID.jsonl"),
        (CLAUDE, "projects/-a/ID.jsonl", "/workspace/a_b.c", "projects/-workspace-a-b-c/ID.jsonl"),
        (CODEX, "sessions/2026/11/30/r-ID.jsonl", "/x", "sessions/2026/11/30/r-ID.jsonl"),
        (PI, "sessions/--src--/T_ID.jsonl", "/work/sub", "sessions/--work-sub--/T_ID.jsonl"),
    ],
)
def test_each_agent_looks_for_it_in_its_own_place(
    adapter: Any, path: str, cwd: str, placed: str
) -> None:
    """By the directory that it works in, which inside is another one."""
    assert adapter.spec.sessions.place(path, cwd) == placed
