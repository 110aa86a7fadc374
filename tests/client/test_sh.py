"""The shell client, with a real daemon and each of the programs that it connects through."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import coachman
import sourcetree
from agent_inside import inside, parent
from client_daemon import FakeDaemon, FaultError, Handler, numbered, streaming
from coachman.cli.visible import HIDDEN, visible
from coachman.paths import socket_path
from coachman.wire import ERROR_CODES, EXIT_OF_ERROR
from daemon_process import DaemonProcess

SCRIPT = sourcetree.ROOT / "client/sh/coachman.sh"
LIMIT_S = 180
HOSTILE = "\x1b[2J\u202etxt.exe\u009b\r\n\tend \U000e0041 caf\u00e9"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=["socat", "nc"])
def sh(request: pytest.FixtureRequest, tmp_path: Path, tool: Callable[[str], str]) -> Run:
    """Runs the script where only one program connects: ``sh(env, WORD…)``."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("sh", "cat", "jq", request.param):
        (bin_ / name).symlink_to(tool(name))
    return lambda env, *words, **more: run({**env, "PATH": str(bin_)}, *words, **more)


def run(
    env: dict[str, str], *words: str, cwd: Path = sourcetree.ROOT, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), *words],
        env=env,
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def printed(done: "subprocess.CompletedProcess[str]") -> list[str]:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_run_is_seen_answered_followed_and_listed(
    daemon: DaemonProcess, repo: Path, sh: Run
) -> None:
    """From the question to the last event, all by the script."""
    with daemon.client() as client:
        started = client.run.start(
            "write a.txt x\nsay done", agent="demo", dir=str(repo), task="t1", permissions="ask"
        )
        client.run.wait([started["run"]], until="attention", timeout_s=LIMIT_S)
    env, handle = daemon.env, started["handle"]

    assert "  runs      1 waiting (at most 8 at once)" in printed(sh(env, "status"))
    assert printed(sh(env, "list"))[1].split() == (
        [handle, "t1", "demo", "needs", "you", "Edit", "a.txt?"]
    )
    assert printed(sh(env, "answer", "t1", "allow", cwd=repo)) == [f"{handle}  allow once"]
    lines = printed(sh(env, "tail", handle, "3"))
    numbers = [int(line.partition(" ")[0]) for line in lines]
    assert numbers == list(range(4, len(daemon.events(started["run"])) + 1))
    assert lines[-1].split()[1:] == ["run.ended", "succeeded"]
    assert printed(sh(env, "list"))[1].split()[3] == "succeeded"


def test_a_kept_run_is_prompted_and_cancelled(daemon: DaemonProcess, repo: Path, sh: Run) -> None:
    """A prompt goes in as an argument or by stdin, and cancel ends the run."""
    with daemon.client() as client:
        run = client.call(
            "run.start", {"prompt": "say a", "agent": "demo", "dir": str(repo), "keep": True}
        )
        handle, text = run["handle"], 'say "quoted" \\ $HOME'
        client.run.wait([handle], until="turn", timeout_s=LIMIT_S)
        printed(sh(daemon.env, "prompt", handle, text))
        long = f"say by stdin\nsay {'x' * 200_000}"
        printed(sh(daemon.env, "prompt", handle, "-", stdin=long))
        client.call("run.close", {"runs": [handle]})
        client.run.wait([handle], timeout_s=LIMIT_S)
        said = [line["text"] for line in client.run.log(handle)["lines"]]
        other = client.run.start("sleep 60", agent="demo", dir=str(repo))["handle"]
        assert printed(sh(daemon.env, "cancel", other))[0].split()[0] == other
        outcome = client.run.wait([other], timeout_s=LIMIT_S)["runs"][0]["outcome"]

    assert any('"quoted" \\ $HOME' in text for text in said)
    assert any("by stdin" in text for text in said)
    assert outcome == "cancelled"


def test_json_is_the_daemons_own_result(daemon: DaemonProcess, sh: Run) -> None:
    """With --json a verb prints what the method returned."""
    status = json.loads("".join(printed(sh(daemon.env, "--json", "status"))))
    listed = json.loads("".join(printed(sh(daemon.env, "--json", "list"))))

    assert status["socket"] == daemon.socket
    assert listed == {"runs": [], "older": 0, "next_cursor": None}


def test_what_an_agent_says_is_made_visible(state_dir: Path, sh: Run) -> None:
    """Control and escape sequences and marks that hide text are shown, as by the command line."""
    path = state_dir / "control.sock"
    events = numbered({"type": "agent.message_chunk", "text": HOSTILE})
    with FakeDaemon(path, {"event.subscribe": streaming(events)}):
        lines = printed(sh({"COACHMAN_SOCKET": str(path)}, "tail", "x"))

    assert lines == [f"1 agent.message_chunk {visible(HOSTILE)}"]


def test_nothing_that_is_hidden_passes(state_dir: Path, sh: Run) -> None:
    """Every character that the command line shows as an escape is one here too."""
    path = state_dir / "control.sock"
    text = "".join(chr(code) for code in sorted(HIDDEN))
    events = numbered({"type": "agent.message_chunk", "text": text})
    with FakeDaemon(path, {"event.subscribe": streaming(events)}):
        done = sh({"COACHMAN_SOCKET": str(path)}, "tail", "x")

    assert printed(done) == [f"1 agent.message_chunk {visible(text)}"]


def test_a_stream_that_is_cut_is_no_success(state_dir: Path, sh: Run) -> None:
    """A daemon that goes in the middle ends tail with 69 and what to do."""
    path = state_dir / "control.sock"
    stream = streaming(numbered({"type": "run.queued"}), lambda peer: peer.hang_up())
    with FakeDaemon(path, {"event.subscribe": stream}):
        done = sh({"COACHMAN_SOCKET": str(path)}, "tail", "x")

    assert done.returncode == 69
    assert done.stderr == "the daemon went: tail again behind the last number\n"


@pytest.mark.parametrize("name", sorted(ERROR_CODES))
def test_a_refusal_has_its_exit_code(
    state_dir: Path, tool: Callable[[str], str], name: str
) -> None:
    """Each error of the wire ends the script as it ends the command line, with what helps."""
    path = state_dir / "control.sock"
    error = {"hint": "look", "next": [["coachman", "list"]]}
    env = {"COACHMAN_SOCKET": str(path), "PATH": os.environ["PATH"]}
    assert tool("jq")
    assert tool("socat")
    with FakeDaemon(path, {"run.cancel": refusing(name, error), "event.subscribe": refusing(name)}):
        done, tail = run(env, "cancel", "x"), run(env, "tail", "x")

    assert (done.returncode, tail.returncode) == (EXIT_OF_ERROR[name],) * 2
    assert done.stderr.splitlines() == ["cannot do it", "  look", "  next: coachman list"]
    assert tail.stderr.splitlines() == ["cannot do it"]


def refusing(name: str, data: dict[str, object] | None = None) -> Handler:
    def refuse(_params: object, _peer: object) -> dict[str, object]:
        raise FaultError(name, "cannot do it", **(data or {}))

    return refuse


def test_words_that_make_no_sense_are_usage_errors() -> None:
    """A verb without what it needs, and none, exit 64 and print the usage."""
    for words in ((), ("tail",), ("answer", "x"), ("prompt", "x"), ("close",), ("cancel",)):
        done = run({"PATH": os.environ["PATH"]}, *words)
        assert (done.returncode, done.stdout) == (64, ""), words
        assert done.stderr.startswith("usage: coachman.sh VERB")


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("awnser", "did you mean answer?"),
        ("canel", "did you mean close or cancel?"),
        ("xyz", "there are: status list tail answer prompt interrupt close cancel"),
    ],
)
def test_an_unknown_verb_is_told_those_near_it(word: str, near: str) -> None:
    """Verbs that begin alike are proposed, or else all are named."""
    done = run({"PATH": os.environ["PATH"]}, word)

    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.splitlines() == [f"cannot find the verb '{word}'", f"  {near}"]


def test_an_answer_that_is_no_choice_or_comes_late_is_told_what_there_is(
    daemon: DaemonProcess, repo: Path, sh: Run
) -> None:
    """A wrong choice names the options; after the answer, the next one hears who gave it."""
    with daemon.client() as client:
        started = client.run.start(
            "write a.txt x\nsleep 60", agent="demo", dir=str(repo), permissions="ask"
        )
        client.run.wait([started["run"]], until="attention", timeout_s=LIMIT_S)
        asked = client.permission.list(started["run"])["permissions"][0]
    handle, options = started["handle"], asked["options"]
    wrong = sh(daemon.env, "answer", handle, "perhaps")
    with coachman.connect(daemon.socket, name="first") as client:
        client.permission.answer(asked["request"], run=started["run"], option=options[0]["id"])
    late = sh(daemon.env, "answer", handle, "deny")

    named = ", ".join(f"{option['id']} ({option['name']})" for option in options)
    assert wrong.returncode == 64
    assert wrong.stderr.splitlines() == [
        f"cannot answer {handle}: 'perhaps' is not one of its choices",
        f"  choose allow, deny, always, or: {named}",
    ]
    kind = options[0]["kind"].replace("_", " ")
    assert late.returncode == 76
    assert late.stderr.splitlines() == [
        f"cannot answer {handle}: nothing waits for an answer",
        f"  the last question was settled: {kind}, by you (first), pid {os.getpid()}",
    ]


def test_what_a_run_asks_in_words_is_answered_in_words(
    daemon: DaemonProcess, repo: Path, sh: Run
) -> None:
    """The words arrive as they stand, and whoever comes later is told that nothing waits."""
    env = {"COACHMAN_SOCKET": daemon.socket}
    run_ = parent(daemon, repo, "sleep 600", permissions="ask")
    with inside(daemon, run_) as asker, daemon.client() as client:
        asker.open().send("run.ask", {"question": "which?", "request_key": "k"}, None)
        client.run.wait([run_], until="attention", timeout_s=LIMIT_S)
        seen = printed(sh(env, "list"))
        answered = printed(sh(env, "answer", run_[-5:], "the third; $(one)"))
        told = asker.call("run.ask", {"question": "which?", "request_key": "k"})
        late = sh(env, "answer", run_[-5:], "allow")

    assert "which?" in "\n".join(seen)
    assert answered == [f"{run_[-5:]}  answered"]
    assert told["answer"] == "the third; $(one)"
    assert (late.returncode, "nothing waits" in late.stderr) == (76, True)


def test_a_kept_run_is_interrupted_closed_and_gone_on_with(
    daemon: DaemonProcess, repo: Path, sh: Run
) -> None:
    """An interrupt says what it dropped, close ends the run, a prompt for it tells the new run."""
    with daemon.client() as client:
        handle = client.run.start("sleep 60", agent="demo", dir=str(repo), keep=True)["handle"]
        until_active(client, handle)
        printed(sh(daemon.env, "prompt", handle, "say later"))
        interrupted = printed(sh(daemon.env, "interrupt", handle, "say instead"))
        client.run.wait([handle], until="turn", timeout_s=LIMIT_S)
        closed = printed(sh(daemon.env, "close", handle))
        client.run.wait([handle], timeout_s=LIMIT_S)
        (resumed,) = printed(sh(daemon.env, "prompt", handle, "say again"))
        newer = resumed.rpartition(" ")[2]
        stopped = client.run.wait([newer], until="turn", timeout_s=LIMIT_S)["runs"][0]

    assert interrupted == [
        f"{handle}  turn 1 ends, then prompt 3",
        "  dropped: prompt 2: say later",
    ]
    assert closed[0].split()[0] == handle
    assert resumed == f"{handle} has ended: resumed as {newer}"
    assert newer != handle
    assert (stopped["turn"], stopped["turn_stop_reason"]) == (1, "end_turn")


def until_active(client: coachman.Client, run: str) -> None:
    with client.events(run) as events:
        assert any(event["type"] == "turn.started" for event in events)


def test_what_is_missing_is_said(state_dir: Path, tool: Callable[[str], str]) -> None:
    """Without a daemon, a program to connect with, or jq, exit 69 and what helps."""
    env = {"COACHMAN_STATE_DIR": str(state_dir), "PATH": os.environ["PATH"]}
    daemon = run(env, "status")
    path = state_dir / "control.sock"
    with FakeDaemon(path, {}):
        program = run({**env, "PATH": "/nowhere"}, "status")
        jq = run({**env, "PATH": "/nowhere"}, "list")

    assert [done.returncode for done in (daemon, program, jq)] == [69, 69, 69]
    assert f"nobody listens on {path}\n  start it: coachman daemon start" in daemon.stderr
    assert program.stderr.endswith("install socat or netcat-openbsd\n")
    assert jq.stderr == "cannot list: there is no jq\n  install jq\n"


def test_sockets_are_found_where_the_command_line_finds_them() -> None:
    """Each of the rules of coachman.paths gives the same path in the script."""
    rules = [
        {"COACHMAN_SOCKET": "/nowhere/b.sock", "COACHMAN_STATE_DIR": "/s", "HOME": "/h"},
        {"COACHMAN_STATE_DIR": "/nowhere/s", "XDG_RUNTIME_DIR": "/nowhere/u", "HOME": "/h"},
        {"XDG_RUNTIME_DIR": "/nowhere/u", "HOME": "/h"},
        {"XDG_STATE_HOME": "/nowhere/x", "HOME": "/h"},
        {"HOME": "/nowhere/h"},
    ]
    for rule in rules:
        assert f"nobody listens on {socket_path(rule)}\n" in run(rule, "status").stderr


def test_a_long_path_is_no_obstacle(state_dir: Path, sh: Run) -> None:
    """A socket whose path is longer than 107 bytes is reached from its own directory."""
    deep = state_dir / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    short = state_dir / "s"
    short.symlink_to(deep)
    with FakeDaemon(short / "control.sock", {"run.list": {"runs": []}}):
        done = sh({"COACHMAN_SOCKET": str(deep / "control.sock")}, "--json", "list")

    assert printed(done) == ['{"runs":[]}']
