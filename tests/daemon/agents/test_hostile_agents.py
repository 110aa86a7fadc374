"""Agents of bad character, each in its sandbox behind its keeper: what becomes of their runs.

All are started at once, on one daemon, and each test looks at one of them.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from hostile_stage import KEY, Recorder, Stage, staged

SPEAKING = ("acp", "claude", "exec", "server", "pi")
ASKING = ("acp", "claude", "server", "pi")
PLACES = 16
RESULT_LIMIT_S = 240.0
SAID = ("succeeded", "end_turn")
FAILED = ("failed", "error")
STARS = "*" * len(KEY)
CANARY = Path("/tmp/hostile-ran")

# Wires, what the agent does, outcome and stop reason, and words of its error or last message.
CASES: tuple[tuple[tuple[str, ...], str, tuple[str, str], str], ...] = (
    (SPEAKING, "nothing", ("empty", "end_turn"), "no message, no change"),
    (("command",), "nothing", SAID, ""),
    (SPEAKING, "exits", FAILED, "exited with status 0 before its turn was over"),
    (("command",), "exits", SAID, "I am done"),
    (SPEAKING, "dies_in_a_line", FAILED, "killed by signal 9"),
    ((*SPEAKING, "command"), "bytes_of_all_kinds", SAID, "x\u2028y\x00z\ufffd"),
    (("acp", "claude", "command"), "holds_stdout", SAID, "said"),
    (("acp", "command"), "daemonizes", SAID, "left some behind"),
    (("acp", "pi"), "lingers", SAID, "done"),
    (ASKING, "asks_and_vanishes", FAILED, "killed by signal 9"),
    (ASKING, "asks_twice", SAID, "asked"),
    (ASKING, "asks 200", SAID, "asked"),
    (("claude", "exec"), "other_session", ("failed", "session_changed"), "is in 0000"),
    (SPEAKING, "unauthorized", FAILED, "authentication_error"),
    (("acp", "command"), "rewrites_git", SAID, "rewritten"),
    (("acp",), "fills /dev/shm 300", SAID, "full: 28 filled"),
    (("acp",), "litters 1500", SAID, "littered"),
    # Read-only, on another filesystem, and a mount: errno of each way to replace a program.
    (("acp", "claude"), "updates_itself", SAID, "30 18 16"),
    (("acp",), "names", SAID, "named"),
    (("acp", "exec"), "long_line 2", SAID, "after it"),
    (SPEAKING, "leaks", SAID, "*"),
    (SPEAKING, "leaks_in_its_failure", FAILED, STARS),
    (ASKING, "leaks_in_a_question", SAID, "asked"),
    (("acp",), "leaks_encoded", SAID, "****"),
)
EACH = [
    pytest.param(wire, mode, verdict, words, id=f"{wire}-{mode.replace(' ', '-').replace('/', '')}")
    for wires, mode, verdict, words in CASES
    for wire in wires
]

Runs = Mapping[tuple[str, str], str]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A daemon and its hostile agents."""
    CANARY.unlink(missing_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as root,
        staged(Path(root), PLACES) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def recorder(stage: Stage) -> Iterator[Recorder]:
    """Whoever hears everything."""
    listener = Recorder(stage.daemon.socket)
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def runs(stage: Stage, recorder: Recorder) -> Runs:
    """Every case, started."""
    started = {}
    for wires, mode, _, _ in CASES:
        for wire in wires:
            started[wire, mode] = run = stage.start(wire, mode)
            recorder.follow(run)
    return started


@pytest.mark.parametrize(("wire", "mode", "verdict", "words"), EACH)
def test_a_hostile_agents_run_ends_truthfully(
    stage: Stage, runs: Runs, wire: str, mode: str, verdict: tuple[str, str], words: str
) -> None:
    """Outcome, stop reason and words are right, one record is terminal, and no process is left."""
    run = runs[wire, mode]
    result = stage.result(run, RESULT_LIMIT_S)
    told = (result["error"] or {"message": result["final_message"]})["message"]
    record = json.loads((at.attempt(stage.daemon, run) / "exit.json").read_bytes())

    assert (result["outcome"], result["stop_reason"]) == verdict, result
    assert words in told
    assert record["tree_empty"]
    assert at.living(at.sandbox_pids(stage.daemon, run)[1:]) == []
    at.check_journal(stage.daemon.events(run))


def test_no_secret_is_heard_or_kept(
    stage: Stage, runs: Runs, recorder: Recorder, eventually: Callable[..., object]
) -> None:
    """The planted key is in no message of the socket, in no record, and not in the daemon's log."""
    shown: list[Any] = []
    with stage.daemon.client() as client:
        for run in runs.values():
            client.run.wait([run], timeout_s=RESULT_LIMIT_S)
            shown += [client.run.get(run), client.run.result(run), client.run.log(run)]
        shown.append(client.run.list())
    eventually(lambda: recorder.ends == len(runs))

    assert KEY not in json.dumps(shown, ensure_ascii=False)
    assert KEY.encode() not in recorder.heard
    assert STARS.encode() in recorder.heard
    assert list(stage.holding()) == []
    assert KEY not in stage.daemon.log
    assert "Traceback" not in stage.daemon.log


def test_a_question_shows_no_secret_while_it_waits(stage: Stage) -> None:
    """What is remembered of a living run is masked as well."""
    run = stage.start("acp", "leaks_in_a_question", permissions="ask")
    at.until_asked(stage.daemon, run)
    with stage.daemon.client() as client:
        shown = [client.permission.list(), client.run.get(run), client.run.list()]
        client.run.cancel([run])
    stage.result(run)

    assert KEY not in json.dumps(shown)
    assert STARS in json.dumps(shown)


def test_what_it_makes_of_git_reaches_nobody(stage: Stage, runs: Runs) -> None:
    """No hook and no filter of its tree ran, and the person's repository is as it was."""
    stage.result(runs["acp", "rewrites_git"], RESULT_LIMIT_S)
    changed = stage.result(runs["command", "rewrites_git"], RESULT_LIMIT_S)["changed_files"]

    assert {file["path"] for file in changed} >= {"made.txt", ".gitattributes"}
    assert not CANARY.exists()
    assert stage.git("status", "--porcelain") == ""


def test_names_of_files_are_shown_as_what_they_are(stage: Stage, runs: Runs) -> None:
    """Control characters of names reach no terminal, and a secret in a name is masked."""
    run = runs["acp", "names"]
    result = stage.result(run, RESULT_LIMIT_S)
    paths = {file["path"] for file in result["changed_files"]}
    shown = [stage.daemon.cli(verb, run, cwd=stage.repo).stdout for verb in ("show", "result")]

    assert {"new\nline", "\x1b[31mred", f"k-{STARS}"} <= paths
    assert not {"\x1b", "\u202e", KEY} & {*"".join(shown)}
    assert KEY not in "".join(shown)


def test_a_session_that_was_replaced_is_not_resumed(stage: Stage) -> None:
    """An agent that opens another session than it is asked for fails its run, which names both."""
    first = stage.start("acp", "other_session")
    stage.result(first, RESULT_LIMIT_S)
    with stage.daemon.client() as client:
        second = client.run.resume(first, "nothing")["run"]
    result = stage.result(second, RESULT_LIMIT_S)

    assert (result["outcome"], result["stop_reason"]) == ("failed", "session_changed")
    assert "00001" in result["error"]["message"]
    assert "00002" in result["error"]["message"]


def test_more_questions_than_anybody_reads_do_not_hold_up_a_cancel(
    stage: Stage, eventually: Callable[..., object]
) -> None:
    """Of thousands some are shown and the others refused, and the run ends when it is told to."""
    run = stage.start("acp", "asks 3000", permissions="ask")
    at.until_asked(stage.daemon, run)
    with stage.daemon.client() as client:
        eventually(lambda: len(client.permission.list(run=run)["permissions"]) == 64)
        client.run.cancel([run])
    result = stage.result(run)
    told = [e["text"] for e in stage.daemon.events(run) if e["type"] == "agent.notice"]
    ended = [e["ts"] for e in stage.daemon.events(run) if e["type"] in ("run.state", "run.ended")]

    assert result["outcome"] == "cancelled"
    assert told == ["64 questions wait for an answer: more are refused until one has it"]
    assert (ended[-1] - ended[-3]) / 1000 < 16 + 2
