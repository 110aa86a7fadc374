"""`coachman run` without a terminal: prompts, what is sent, what is printed, SIGINT."""

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from client_daemon import (
    RUN,
    FakeDaemon,
    FaultError,
    Peer,
    coachman,
    command,
    environment,
    numbered,
    streaming,
)
from client_samples import AGENTS, permission, result, started

EVENTS = numbered(
    {"type": "run.state", "from": "queued", "to": "preparing"},
    {"type": "tool.call", "tool_call_id": "t", "title": "cargo test", "status": "pending"},
    {"type": "agent.message_chunk", "text": "All done."},
    {"type": "run.ended", "outcome": "succeeded"},
)


def daemon_at(state_dir: Path, **handlers: Any) -> FakeDaemon:
    scripted = {
        "daemon.hello": {},
        "agent.list": AGENTS,
        "run.start": started(),
        "event.subscribe": streaming(EVENTS),
        "run.result": result(),
        **{name.replace("__", "."): handler for name, handler in handlers.items()},
    }
    return FakeDaemon(state_dir / "control.sock", scripted)


@pytest.mark.parametrize("verb", ["resume", "prompt"])
def test_whoever_goes_on_in_a_session_lends_what_its_agent_declares(
    state_dir: Path, verb: str
) -> None:
    """The variables are those of the run's own agent, and no others; the run is sent by its id."""
    details = {"run": RUN, "handle": RUN[-5:], "agent": "demo", "profile": "edit"}
    details["permissions"] = "allow"
    prompted = {"run": RUN, "handle": RUN[-5:], "state": "queued", "prompt": 1, "turn": 1}
    told = {"ahead": 0, "waits_for": None, "resumed": True, "new": True}
    handlers = {
        "run.get": {**details, "last_seq": 1},
        "run.resume": {**started(), "resumed_from": RUN},
        "run.prompt": {**prompted, **told},
    }
    env = {"DEMO_KEY": "d", "OTHER_KEY": "o"}
    with daemon_at(state_dir, **{name.replace(".", "__"): x for name, x in handlers.items()}) as at:
        done = coachman(state_dir, verb, "parser", "go on", env=env)
    [asked] = at.params("agent.list")
    [sent] = at.params(f"run.{verb}")

    assert done.returncode == 0, done.stderr
    assert asked == {"agent": "demo", "profile": "edit"}
    assert (sent["run"], sent["prompt"]) == (RUN, "go on")
    assert sent["env"]["DEMO_KEY"] == "d"
    assert "OTHER_KEY" not in sent["env"]


def test_a_run_is_watched_to_its_end(state_dir: Path) -> None:
    """Header, progress and verdict go to stderr; stdout is the final message alone."""
    with daemon_at(state_dir):
        done = coachman(state_dir, "run", "fix it")

    assert done.returncode == 0
    assert done.stdout == "All done.\n"
    assert done.stderr == (
        "k7q3x: demo, task parser\n"
        "  profile edit, permissions allow, network host"
        " (the machine's own: loopback services and the local network are in reach)\n"
        "  worktree /state/worktrees/parser\n"
        "  > cargo test\n"
        "All done.\n"
        "k7q3x succeeded after 4m12s\n"
        "  work: 1 file, coachman diff k7q3x      81k tokens, $0.42\n"
    )


def test_a_run_as_json_is_its_result(state_dir: Path) -> None:
    """With --json the only output is the result, and the exit code is the outcome's."""
    with daemon_at(state_dir, run__result=result(outcome="refused")):
        done = coachman(state_dir, "run", "--json", "fix it")

    assert (done.returncode, done.stderr) == (2, "")
    assert json.loads(done.stdout) == result(outcome="refused")


def test_a_detached_run_returns_what_was_started(state_dir: Path) -> None:
    """-d prints the start with --json verbatim, with -q the handle alone."""
    with daemon_at(state_dir) as daemon:
        document = coachman(state_dir, "run", "-d", "--json", "fix it")
        handle = coachman(state_dir, "run", "-dq", "fix it")

    assert json.loads(document.stdout) == started()
    assert handle.stdout == "k7q3x\n"
    assert not daemon.params("event.subscribe")


def test_every_option_becomes_a_parameter(state_dir: Path) -> None:
    """The command line is translated, and nothing else is sent."""
    words = (
        "run -d -a demo -m big -e high -t perf -p edit -l a=b -l c=d --permissions ask"
        " --timeout 1h30m --permission-timeout 5m --base HEAD~1 --title T --request-key k"
        " --no-wait --dry-run"
    )
    with daemon_at(state_dir) as daemon:
        done = coachman(state_dir, *words.split(), "fix it")
    (params,) = daemon.params("run.start")
    params.pop("env")

    assert done.returncode == 0
    assert done.stdout.startswith("would start: demo, task parser\n")
    assert params == {
        "prompt": "fix it",
        "dir": str(state_dir),
        "agent": "demo",
        "model": "big",
        "effort": "high",
        "task": "perf",
        "profile": "edit",
        "labels": {"a": "b", "c": "d"},
        "permissions": "ask",
        "timeouts": {"wall_s": 5400.0, "permission_s": 300.0},
        "base": "HEAD~1",
        "title": "T",
        "request_key": "k",
        "no_wait": True,
        "dry_run": True,
    }


def test_only_declared_variables_go_along(state_dir: Path) -> None:
    """What the agent declared, PATH, proxies, CA and locale are carried, and no more."""
    env = {
        "DEMO_KEY": "secret",
        "OTHER_KEY": "private",
        "LC_ALL": "C.UTF-8",
        "https_proxy": "http://p",
    }
    with daemon_at(state_dir) as daemon:
        coachman(state_dir, "run", "-d", "-a", "demo", "fix it", env=env)
    carried = daemon.params("run.start")[0]["env"]

    assert daemon.params("agent.list") == [{"agent": "demo"}]
    assert set(carried) == {"DEMO_KEY", "LC_ALL", "PATH", "TZ", "https_proxy"}


def test_the_environment_has_defaults(state_dir: Path) -> None:
    """COACHMAN_AGENT and COACHMAN_PROFILE stand in for -a and -p."""
    env = {"COACHMAN_AGENT": "demo", "COACHMAN_PROFILE": "edit"}
    with daemon_at(state_dir) as daemon:
        coachman(state_dir, "run", "-d", "fix it", env=env)
        coachman(state_dir, "run", "-d", "-a", "other", "fix it", env=env)

    assert [(p["agent"], p["profile"]) for p in daemon.params("run.start")] == [
        ("demo", "edit"),
        ("other", "edit"),
    ]


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["fix it"], "ignored"),
        (["@prompt.md"], ""),
        (["--prompt-file", "prompt.md"], ""),
        (["-"], "fix it"),
        ([], "fix it"),
    ],
)
def test_a_prompt_has_exactly_one_source(state_dir: Path, words: list[str], stdin: str) -> None:
    """A word, a file, a dash or a pipe: each gives the prompt."""
    (state_dir / "prompt.md").write_text("fix it")
    with daemon_at(state_dir) as daemon:
        done = coachman(state_dir, "run", "-d", *words, stdin=stdin)

    assert done.returncode == 0, done.stderr
    assert daemon.params("run.start")[0]["prompt"] == "fix it"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "the prompt is empty"),
        (["a", "--prompt-file", "b"], "two prompts"),
        (["a", "b"], "one operand too many"),
        (["@missing"], "No such file"),
        (["a", "--permissions", "maybe"], "choose allow, ask, deny"),
        (["a", "-l", "x"], "KEY=VALUE"),
        (["a", "--"], "no program"),
        (["--tied", "a"], "this version always detaches"),
        (["-a", "command", "a"], "write it behind two dashes: coachman run -- PROGRAM"),
        (["a", "--timeout", "0"], "cannot run --timeout: '0' leaves no time"),
        (["a", "--permission-timeout", "0m"], "leaves no time"),
    ],
)
def test_a_senseless_start_is_refused_before_anything_is_sent(
    state_dir: Path, words: list[str], why: str
) -> None:
    """Usage errors exit 64 and reach no daemon."""
    done = coachman(state_dir, "run", *words)

    assert done.returncode == 64
    assert why in done.stderr


def test_words_behind_dashes_are_a_program(state_dir: Path) -> None:
    """A program selects the command agent and may go without a prompt."""
    with daemon_at(state_dir) as daemon:
        coachman(state_dir, "run", "-d", "--", "make", "-j2")
    (params,) = daemon.params("run.start")

    assert (params["agent"], params["argv"], params["prompt"]) == ("command", ["make", "-j2"], "")


def test_what_is_left_out_is_said(state_dir: Path) -> None:
    """A continued task and the daemon's warnings stand in the header, each once."""
    left_out = "1 uncommitted change is not in the base"
    more = {"continuing": 2, "uncommitted_left_out": 1, "warnings": [left_out, "no submodules"]}
    with daemon_at(state_dir, run__start=started(**more)):
        done = coachman(state_dir, "run", "-d", "fix it")

    assert "continuing task parser (2 earlier runs)" in done.stdout
    assert done.stdout.count("uncommitted") == 1
    assert f"  warning: {left_out}\n  warning: no submodules\n" in done.stdout


def test_sigint_without_a_terminal_cancels(state_dir: Path) -> None:
    """SIGINT cancels the run, and the exit code is that of its end."""
    cancelled = threading.Event()

    def cancel(_params: object, _peer: Peer) -> dict[str, Any]:
        cancelled.set()
        return {"runs": []}

    def watch_until_cancelled(peer: Peer) -> None:
        process.send_signal(signal.SIGINT)
        assert cancelled.wait(20)
        peer.notify("event.end", subscription="s1", reason="run_ended")

    ready = threading.Event()

    def subscribe(params: dict[str, Any], peer: Peer) -> dict[str, Any]:
        ready.wait(20)
        return streaming(EVENTS[:1], then=watch_until_cancelled)(params, peer)

    with daemon_at(
        state_dir,
        event__subscribe=subscribe,
        run__cancel=cancel,
        run__result=result(outcome="cancelled", stop_reason="cancelled", final_message=""),
    ) as daemon:
        process = subprocess.Popen(
            command("run", "fix it"),
            cwd=state_dir,
            env=environment(state_dir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        ready.set()
        _, told = process.communicate(timeout=90)

    assert process.returncode == 130
    assert daemon.params("run.cancel") == [{"runs": [RUN]}]
    assert "cancelling k7q3x" in told


def test_without_a_terminal_a_question_is_pointed_out(state_dir: Path) -> None:
    """A watcher that cannot be asked prints the question and how to answer it."""
    question = {k: permission()[k] for k in ("request", "question", "tool", "options")}
    events = numbered({"type": "permission.requested", **question})
    asking = started("ask")
    with daemon_at(state_dir, run__start=asking, event__subscribe=streaming(events)):
        done = coachman(state_dir, "run", "fix it")
        quiet = coachman(state_dir, "run", "--json", "fix it")

    assert "? Bash: npm i left-pad" in done.stderr
    assert "coachman answer k7q3x" in done.stderr
    assert quiet.stderr == "k7q3x needs you: coachman permissions k7q3x\n"


def test_what_policy_answers_is_shown_and_not_asked(state_dir: Path) -> None:
    """What policy answers is one line; what it cannot answer is a question with its choices."""
    question = {k: permission()[k] for k in ("request", "question", "tool", "options")}
    policy = {"request": "p1", "kind": "allow_once", "by": {"resolver": "policy"}}
    events = numbered(
        {"type": "permission.requested", **question}, {"type": "permission.resolved", **policy}
    )
    left_open = numbered(
        {"type": "permission.requested", **question},
        {"type": "run.state", "to": "waiting", "reason": "permission"},
        {"type": "permission.resolved", **policy, "by": {"resolver": "client", "user": "ann"}},
    )
    with daemon_at(state_dir, event__subscribe=streaming(events)):
        done = coachman(state_dir, "run", "fix it")
    with daemon_at(state_dir, event__subscribe=streaming(left_open)):
        waited = coachman(state_dir, "run", "fix it")

    assert "  = allowed by policy: Bash: npm i left-pad\n" in done.stderr
    assert "  ? " not in done.stderr
    assert (
        "  ? Bash: npm i left-pad\n"
        "    1 Allow once, 2 Allow always, 3 Reject: coachman answer k7q3x …\n"
        "  = allow once, by ann\n"
    ) in waited.stderr


def test_a_repeated_request_key_is_said(state_dir: Path) -> None:
    """A start that found its run there already says so."""
    with daemon_at(state_dir, run__start=started(new=False)):
        done = coachman(state_dir, "run", "-d", "--request-key", "k", "fix it")

    assert done.stdout.startswith("k7q3x, already started: demo, task parser\n")


def test_a_result_that_is_late_is_waited_for(state_dir: Path) -> None:
    """The end may be told a moment before the result is on disk."""
    early = iter([True])

    def late(_params: object, _peer: Peer) -> dict[str, Any]:
        if next(early, False):
            raise FaultError("Conflict", "cannot tell the result: the run has not ended")
        return result()

    with daemon_at(state_dir, run__result=late, run__wait={"met": "ended", "runs": []}):
        assert coachman(state_dir, "run", "fix it").returncode == 0
