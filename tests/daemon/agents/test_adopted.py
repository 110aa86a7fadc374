"""A session that was begun by hand is gone on with in a copy: that one, and exactly that one."""

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from coachman_adapters.claude.agent import CLAUDE
from coachman_adapters.codex.agent import CODEX
from coachman_adapters.demo import DEMO
from coachman_adapters.gemini import GEMINI
from coachman_adapters.opencode import OPENCODE
from coachman_adapters.pi.agent import PI
from coachman_sandbox.profiles import EDIT, SEALED
from coachmand.evidence import stores
from coachmand.rpc.errors import RpcError
from coachmand.runs.intake.adopted import copy_session, find_session
from coachmand.runs.intake.request import StartRequest
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
        find_session(request, "demo", DEMO.spec, SEALED, {"HOME": str(tmp_path)})

    assert refusal.value.data["detail"] == {"reason": "profile"}


@pytest.mark.parametrize(
    ("adapter", "path", "cwd", "placed"),
    [
        (CLAUDE, "projects/-src-app/ID.jsonl", "/workspace", "projects/-workspace/ID.jsonl"),
        (CLAUDE, "projects/-a/ID.jsonl", "/workspace/a_b.c", "projects/-workspace-a-b-c/ID.jsonl"),
        (CODEX, "sessions/2026/11/30/r-ID.jsonl", "/x", "sessions/2026/11/30/r-ID.jsonl"),
        (
            GEMINI,
            "tmp/src/chats/session-D-ID.jsonl",
            "/w/A b",
            "tmp/a-b/chats/session-0000-ID.jsonl",
        ),
        (PI, "sessions/--src--/T_ID.jsonl", "/work/sub", "sessions/--work-sub--/T_ID.jsonl"),
    ],
)
def test_each_agent_looks_for_it_in_its_own_place(
    adapter: Any, path: str, cwd: str, placed: str
) -> None:
    """By the directory that it works in, which inside is another one."""
    assert adapter.spec.sessions.place(path, cwd) == placed


BEGUN = "ses_dd2b7703bffeyJSacMui3ZdGyj"
ROW = {
    "id": BEGUN,
    "project_id": "global",
    "slug": "calm-star",
    "directory": "/src",
    "title": "by hand",
    "version": "1.18.33",
    "share_url": "https://example.invalid/shared",
    "permission": '[{"permission":"bash","pattern":"*","action":"allow"}]',
    "model": '{"id":"m","providerID":"p"}',
    "tokens_input": 7,
    "time_created": 1,
    "time_updated": 2,
}


def store_of(path: Path, **changed: Any) -> Path:
    """A database with two sessions, each with a message in two parts; the second says more."""
    path.mkdir(parents=True)
    with closing(sqlite3.connect(path / "opencode.db")) as store:
        row = {**ROW, **changed}
        store.execute(f"CREATE TABLE session ({', '.join(row)})")
        store.execute("CREATE TABLE message (id, session_id, time_created, data)")
        store.execute("CREATE TABLE part (id, message_id, session_id, data)")
        for number, session in enumerate((BEGUN, "ses_another00")):
            values = [*{**row, "id": session}.values()]
            store.execute(f"INSERT INTO session VALUES ({', '.join('?' * len(row))})", values)
            told = (f"msg{number}", session, 5, '{"role": "user"}')
            store.execute("INSERT INTO message VALUES (?, ?, ?, ?)", told)
            for part in "ab":
                text = json.dumps({"type": "text", "text": f"{part} of {session}" * (number + 1)})
                values = [f"prt{part}", f"msg{number}", session, text]
                store.execute("INSERT INTO part VALUES (?, ?, ?, ?)", values)
        store.commit()
    return path / "opencode.db"


def taken(tmp_path: Path, session: str = BEGUN) -> Any:
    """The document that a private home gets."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    environment = {"XDG_DATA_HOME": str(tmp_path / "data")}
    request = StartRequest(dir="/", session=session)
    find_session(request, "opencode", OPENCODE.spec, EDIT, environment)
    assert OPENCODE.spec.sessions is not None
    copy_session(session, OPENCODE.spec.sessions, environment, "/workspace", home)
    [path] = home.glob(f".local/share/opencode/adopted/{session}.json")
    return json.loads(path.read_text())


def test_of_a_store_one_session_is_read_without_what_was_allowed_in_it(tmp_path: Path) -> None:
    """Its messages and their parts, in order; no grants or shares; the store stays as it is."""
    store = store_of(tmp_path / "data" / "opencode")
    before = store.read_bytes()
    document = taken(tmp_path)

    assert document["info"]["id"] == BEGUN
    assert document["info"]["model"] == {"id": "m", "providerID": "p"}
    assert document["info"]["tokens"]["input"] == 7
    assert not {"permission", "share", "share_url"} & set(document["info"])
    [message] = document["messages"]
    assert message["info"] == {"role": "user", "id": "msg0", "sessionID": BEGUN}
    assert [part["text"] for part in message["parts"]] == [f"a of {BEGUN}", f"b of {BEGUN}"]
    assert "another" not in json.dumps(document)
    assert store.read_bytes() == before


def test_a_store_of_another_form_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No store, no session in it, one that is too long, rows that say something else."""
    with pytest.raises(RpcError, match="there is no session") as none:
        taken(tmp_path)
    store_of(tmp_path / "data" / "opencode")
    with pytest.raises(RpcError, match="there is no session") as other:
        taken(tmp_path, "ses_nothing000")
    monkeypatch.setattr(stores, "MAX_BYTES", 100)
    with pytest.raises(RpcError, match="has more than") as long:
        taken(tmp_path)
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "data")
    store_of(tmp_path / "data" / "opencode", model="no JSON")
    with pytest.raises(RpcError, match="a form that is not known") as strange:
        taken(tmp_path)

    reasons = [error.value.data["detail"]["reason"] for error in (none, other, long, strange)]
    assert reasons == ["no_session", "no_session", "store", "store"]


def test_of_a_chat_the_first_line_says_whose_it_is(tmp_path: Path) -> None:
    """Its name has only the beginning of the id, which another may share."""
    chats = tmp_path / ".gemini" / "tmp" / "src" / "chats"
    chats.mkdir(parents=True)
    ids = [f"4a7ec130-ac9b-4fff-be9c-b646f71e8e{end}" for end in ("3c", "ff")]
    for minute, session in enumerate(ids):
        line = json.dumps({"sessionId": session, "projectHash": "of elsewhere"})
        (chats / f"session-2026-11-30T16-3{minute}-4a7ec130.jsonl").write_text(f"{line}\nsaid\n")
    (chats / "session-2026-11-30T16-39-4a7ec130.jsonl").write_text("no JSON\n")
    home = tmp_path / "home"
    home.mkdir()
    assert GEMINI.spec.sessions is not None
    copy_session(ids[1], GEMINI.spec.sessions, {"HOME": str(tmp_path)}, "/workspace", home)
    [copied] = home.glob(".gemini/tmp/workspace/chats/session-0000-4a7ec130.jsonl")
    head, rest = copied.read_text().split("\n", 1)

    assert json.loads(head)["sessionId"] == ids[1]
    assert json.loads(head)["projectHash"] == hashlib.sha256(b"/workspace").hexdigest()
    assert rest == "said\n"
