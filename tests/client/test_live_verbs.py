"""The verbs that steer a kept run, as people and programs meet them on the command line."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import live_runs as live
import recovery_state as at
from coachman.cli.main import VERBS
from daemon_process import BIN, DaemonProcess

KEEP = ("run", "-a", "demo", "--keep", "-t", "t1")
ORDER = """
run resume
list show result log tail diff status
prompt interrupt permissions answer wait close cancel
agents profile completion daemon version
"""


def document(daemon: DaemonProcess, repo: Path, *words: str, code: int = 0) -> dict[str, Any]:
    """The one JSON document that a command prints."""
    done = daemon.cli(*words, "--json", cwd=repo)
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def text(daemon: DaemonProcess, repo: Path, *words: str, code: int = 0, stdin: str = "") -> str:
    """What a command prints on stdout."""
    done = daemon.cli(*words, cwd=repo, stdin=stdin.encode())
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def parked(daemon: DaemonProcess, repo: Path, prompt: str = "say one") -> str:
    """A kept run of task t1 that has done with its first turn; its handle."""
    run = live.keep(daemon, repo, prompt, task="t1")
    live.until_parked(daemon, run)
    return run[-5:]


def test_the_help_has_the_verbs_in_the_order_in_which_they_are_needed() -> None:
    """Starting, looking, steering, setting up; others may stand between them."""
    known = ORDER.split()

    assert [verb for verb in VERBS if verb in known] == known


def test_a_kept_run_in_the_foreground_is_left_when_it_parks(
    daemon: DaemonProcess, repo: Path
) -> None:
    """The message is printed, and how to go on; the exit code is the turn's."""
    done = daemon.cli("run", "-a", "demo", "--keep", "-t", "t1", "say hello", cwd=repo)
    [summary] = document(daemon, repo, "list")["runs"]
    handle = summary["handle"]

    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert f"{handle} parked: turn 1 is over" in done.stderr
    assert f"next: coachman prompt {handle} TEXT; coachman close {handle}" in done.stderr
    assert (summary["state"], summary["keep"], summary["turn"]) == ("parked", True, 1)


def test_the_message_of_a_turn_is_there_once(daemon: DaemonProcess, repo: Path) -> None:
    """Where both streams are one file, the parking behind a message does not bring it back."""
    words = ([*KEEP, "say hello"], ["prompt", "t1", "say hello", "--wait"])
    told = []
    for number, argv in enumerate(words):
        path = repo.parent / f"{number}.log"
        with path.open("wb") as log:
            subprocess.run(
                [str(BIN / "coachman"), *argv],
                cwd=repo,
                env=daemon.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )
        told.append(path.read_text().splitlines().count("hello"))

    assert told == [1, 1]


def test_a_kept_run_in_the_foreground_is_one_document(daemon: DaemonProcess, repo: Path) -> None:
    """With how its turn ended, its message, and commands that run as they are."""
    found = document(daemon, repo, "run", "-a", "demo", "--keep", "say hello\nrefuse", code=2)

    assert (found["state"], found["turn"], found["stop_reason"]) == ("parked", 1, "refusal")
    assert found["final_message"] == "hello"
    for argv in found["next"]:
        assert daemon.cli(*argv[1:], cwd=repo).returncode == 0


def test_a_kept_run_that_ends_is_reported_as_ended(daemon: DaemonProcess, repo: Path) -> None:
    """An agent that leaves within its turn leaves nothing to be prompted."""
    done = daemon.cli("run", "-a", "demo", "--keep", "say hello\nexit 3", cwd=repo)

    assert done.returncode == 1
    assert "failed" in done.stderr
    assert "parked" not in done.stderr


@pytest.mark.parametrize("source", ["operand", "file", "stdin", "pipe"])
def test_a_prompt_comes_from_any_source(daemon: DaemonProcess, repo: Path, source: str) -> None:
    """As for a run: a word, a file, or what is piped in."""
    parked(daemon, repo)
    (repo / "prompt.md").write_text("say two")
    words = {"operand": ["say two"], "file": ["@prompt.md"], "stdin": ["-"], "pipe": []}[source]
    stdin = "say two" if source in ("stdin", "pipe") else ""
    told = text(daemon, repo, "prompt", "t1", "--wait", *words, stdin=stdin)

    assert told == "two\n"


def test_a_prompt_says_what_became_of_it(daemon: DaemonProcess, repo: Path) -> None:
    """Started, queued behind so many, or resumed as another run."""
    handle = parked(daemon, repo)
    starts = text(daemon, repo, "prompt", handle, "say two\nsleep 60")
    live.until_said(daemon, at_run(daemon, handle), "two")
    queued = [text(daemon, repo, "prompt", handle, f"say {word}") for word in ("a", "b")]
    listed = text(daemon, repo, "list")
    shown = text(daemon, repo, "show", handle)
    text(daemon, repo, "interrupt", handle)
    live.until_parked(daemon, at_run(daemon, handle))
    text(daemon, repo, "close", handle)
    assert text(daemon, repo, "wait", handle, code=130)
    resumed = text(daemon, repo, "prompt", handle, "say again")
    again = document(daemon, repo, "show", "t1")

    assert starts == f"{handle}  turn 2 starts\n"
    assert queued == [
        f"{handle}  prompt 3 is queued behind 1 turn\n",
        f"{handle}  prompt 4 is queued behind 2 turns\n",
    ]
    assert "2 prompts wait" in listed
    assert "waiting      3 say a\n             4 say b\n" in shown
    assert resumed == f"{handle} has ended: resumed as {again['handle']}\n"
    assert again["resumed_from"].endswith(handle)


def at_run(daemon: DaemonProcess, handle: str) -> str:
    with daemon.client() as client:
        return client.run.get(handle)["run"]


def test_waiting_for_a_prompt_is_waiting_for_its_own_turn(
    daemon: DaemonProcess, repo: Path
) -> None:
    """Behind another one, the message and the exit code are those of the prompt's turn."""
    run = live.keep(daemon, repo, "say one\nsleep 0.5", task="t1")
    live.until_said(daemon, run, "one")
    found = document(daemon, repo, "prompt", "t1", "say two\nfail it broke", "--wait", code=1)

    assert (found["prompt"], found["turn"], found["stop_reason"]) == (2, 2, "error")
    assert (found["final_message"], found["error"]["message"]) == ("two", "it broke")


def test_a_prompt_that_is_dropped_is_not_waited_for(daemon: DaemonProcess, repo: Path) -> None:
    """Whoever waits is told, with the code of something that was cancelled."""
    run = live.keep(daemon, repo, "say one\nsleep 60", task="t1")
    live.until_said(daemon, run, "one")
    waiting = daemon.spawn("prompt", "t1", "say two", "--wait", "--json", cwd=repo)
    at.until_event(daemon, run, lambda event: event["type"] == "prompt.queued")
    dropped = text(daemon, repo, "interrupt", "t1")
    stdout, _ = waiting.communicate(timeout=90)

    assert "  dropped: prompt 2: say two\n" in dropped
    assert (waiting.returncode, json.loads(stdout)["dropped"]) == (130, True)


def test_an_interrupt_says_what_it_did(daemon: DaemonProcess, repo: Path) -> None:
    """Which turn ends, what comes then; that nothing runs is no error, another turn is."""
    run = live.keep(daemon, repo, "say one\nsleep 60", task="t1")
    live.until_said(daemon, run, "one")
    handle = run[-5:]
    other = document(daemon, repo, "interrupt", "t1", "--turn", "7", code=76)["error"]
    ends = text(daemon, repo, "interrupt", "t1", "say two", "--keep-queue")
    live.until_parked(daemon, run)
    idle = text(daemon, repo, "interrupt", "t1")

    assert other["name"] == "Conflict"
    assert ends == f"{handle}  turn 1 ends, then prompt 2\n"
    assert idle == f"{handle}  no turn is running (parked)\n"


def test_close_is_idempotent_and_says_so(daemon: DaemonProcess, repo: Path) -> None:
    """Twice is no error; the run's own outcome is told by wait."""
    handle = parked(daemon, repo)
    first = text(daemon, repo, "close", "t1")
    ended = text(daemon, repo, "wait", "t1")
    again = document(daemon, repo, "close", "t1")

    assert first == f"{handle}  closing (parked)\n"
    assert ended == f"{handle}  succeeded\n"
    assert again["runs"][0]["already"]


@pytest.mark.parametrize("verb", ["prompt", "interrupt"])
def test_a_run_that_takes_no_prompt_is_the_wrong_state(
    daemon: DaemonProcess, repo: Path, verb: str
) -> None:
    """Exit 76, with a hint, and a next step that runs verbatim."""
    run = at.start(daemon, repo, "say one\nsleep 1", task="t1")
    live.until_said(daemon, run, "one")
    error = document(daemon, repo, verb, "t1", "say two", code=76)["error"]

    assert error["name"] == "Conflict"
    assert "keep" in error["hint"]
    [argv] = error["next"]
    assert daemon.cli(*argv[1:], cwd=repo).returncode == 0


def test_a_run_is_resumed_in_the_foreground(daemon: DaemonProcess, repo: Path) -> None:
    """The header names both runs; the exit code is the new one's."""
    run = at.start(daemon, repo, "say one", task="t1")
    at.result(daemon, run)
    done = daemon.cli("resume", "t1", "recall\nrefuse", cwd=repo)
    shown = text(daemon, repo, "show", "t1")

    assert (done.returncode, done.stdout) == (2, "say one\n")
    assert f"resumed from {run[-5:]}: demo, continuing task t1 (1 earlier run)" in done.stderr
    assert f"resumed from {run[-5:]}" in shown


def test_a_run_is_resumed_and_kept(daemon: DaemonProcess, repo: Path) -> None:
    """What was bounded can be kept from then on; detached, the next steps are named."""
    run = at.start(daemon, repo, "say one", task="t1")
    at.result(daemon, run)
    started = document(daemon, repo, "resume", "t1", "say two", "--keep", "-d")
    live.until_parked(daemon, started["run"])
    refused = document(daemon, repo, "resume", "t1", "say three", code=76)["error"]

    assert (started["keep"], started["resumed_from"]) == (True, run)
    assert refused["detail"]["reason"] == "lives"
    assert refused["next"] == [["coachman", "close", started["handle"]]]


def test_a_kept_run_is_resumed_for_one_turn(daemon: DaemonProcess, repo: Path) -> None:
    """What was kept stays so, unless it is said that it is to end with its first turn."""
    parked(daemon, repo)
    text(daemon, repo, "close", "t1")
    text(daemon, repo, "wait", "t1")
    both = document(daemon, repo, "resume", "t1", "say two", "--keep", "--no-keep", code=64)
    ended = document(daemon, repo, "resume", "t1", "say two", "--no-keep")
    again = document(daemon, repo, "show", "t1")

    assert "exclude each other" in both["error"]["message"]
    assert (ended["outcome"], again["state"], again["keep"]) == ("succeeded", "ended", False)


def test_what_cannot_be_kept_says_who_can(daemon: DaemonProcess, repo: Path) -> None:
    """Exit 64 before anything starts."""
    done = daemon.cli("run", "--keep", "--", "true", cwd=repo)

    assert done.returncode == 64
    assert "its run cannot be kept" in done.stderr
    assert "demo" in done.stderr


def test_waiting_for_a_turn_exits_as_it_ended(daemon: DaemonProcess, repo: Path) -> None:
    """A parked run's last turn counts, also when it was over before."""
    parked(daemon, repo, "refuse")
    told = text(daemon, repo, "wait", "t1", "--until", "turn", code=2)

    assert told.endswith("  turn 1 ended: refusal\n")


@pytest.mark.parametrize("until", ["ended", "attention"])
def test_waiting_for_a_parked_run_says_that_nothing_happens(
    daemon: DaemonProcess, repo: Path, until: str
) -> None:
    """At once where it is parked, and when it parks while it is waited for."""
    run = live.keep(daemon, repo, "say one\nsleep 1", task="t1")
    handle = run[-5:]
    words = ("wait", handle, "--until", until, "--timeout")
    early = daemon.cli(*words, "6", cwd=repo)
    late = daemon.cli(*words, "0", "--json", cwd=repo)
    line = (
        f"{handle}  parked: nothing happens until it is prompted or closed:"
        f" coachman prompt {handle} …; coachman close {handle}\n"
    )

    assert (early.returncode, early.stderr) == (11, line)
    assert (late.returncode, late.stderr) == (11, line)


def test_a_check_and_the_words_of_a_denial_are_on_record(daemon: DaemonProcess, repo: Path) -> None:
    """`show` and `log` tell what decided, and why a handler denied."""
    hook = daemon.root / "hook"
    hook.write_text('#!/bin/sh\necho \'{"kind": "deny", "message": "not in here"}\'\n')
    hook.chmod(0o700)
    run = at.start(
        daemon,
        repo,
        "ask may it?\nsay one",
        permission_handler=f"command:{hook}",
        check="echo bad; exit 2",
    )
    at.result(daemon, run)
    shown, log = text(daemon, repo, "show", run), text(daemon, repo, "log", run)

    assert "check        failed" in shown
    assert ": echo bad; exit 2\n               bad\n" in shown
    assert ": not in here\n" in log
    assert "  [check: echo bad; exit 2]\n  [check failed: exit status 2]\n  | bad\n" in log


def test_log_and_tail_tell_the_turns_apart(daemon: DaemonProcess, repo: Path) -> None:
    """Which prompt began each turn, who interrupted, and that it parked."""
    handle = parked(daemon, repo)
    text(daemon, repo, "prompt", handle, "say two\nsleep 60\nnot said")
    live.until_said(daemon, at_run(daemon, handle), "two")
    text(daemon, repo, "interrupt", handle)
    live.until_parked(daemon, at_run(daemon, handle))
    log = text(daemon, repo, "log", handle).splitlines()
    tail = text(daemon, repo, "tail", handle, "--no-follow").splitlines()

    assert log[:5] == [
        "  [turn 1 started]",
        "one",
        "  [turn ended: end_turn]",
        "  [turn 2 started: say two]",
        "two",
    ]
    assert log[5].startswith("  [turn 2 interrupted by you (coachman), pid ")
    assert log[6] == "  [turn ended: cancelled]"
    assert "  [turn 2: say two]" in tail
    assert "  [parked: turn 1 is over]" in tail
    assert tail[-1] == "  [parked: turn 2 is over]"
