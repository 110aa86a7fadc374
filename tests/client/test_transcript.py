"""`log` reads as `tail` did: the same words, in the order in which things happened."""

import io
from pathlib import Path
from typing import Any

import pytest

from client_daemon import RUN, FakeDaemon, coachman, numbered
from coachman.cli.console import Console
from coachman.cli.log import _shown
from coachman.cli.options import Arguments
from coachman.cli.progress import Progress
from coachmand.runs.reading.transcript import Transcript

TOOL = {"tool_call_id": "t1", "name": "write", "title": "hello.txt", "status": "pending"}
CALL = {"type": "tool.call", **TOOL}
DONE = {"type": "tool.call_update", "tool_call_id": "t1", "status": "completed"}
ASKED = {
    "type": "permission.requested",
    "request": "p1",
    "question": "Edit hello.txt?",
    "tool": TOOL,
    "options": [],
}
ME = {"resolver": "client", "user": "you (coachman)", "pid": 7}


def resolved(kind: str | None, by: dict[str, Any], outcome: str = "selected") -> dict[str, Any]:
    return {
        "type": "permission.resolved",
        "request": "p1",
        "kind": kind,
        "outcome": outcome,
        "by": by,
    }


def logged(*events: dict[str, Any]) -> list[str]:
    """The lines of `coachman log`."""
    made = Transcript()
    for event in numbered(*events):
        made.take(event)
    return [_shown(entry) for entry in made.entries]  # type: ignore[arg-type]


def tailed(*events: dict[str, Any], asking: bool = True) -> list[str]:
    """The lines of `coachman tail`."""
    stream = io.StringIO()
    progress = Progress(Console(Arguments(), {}), stream, answerable=asking)
    for event in numbered(*events):
        progress.show(event)
    return stream.getvalue().splitlines()


def test_what_went_wrong_beside_the_agent_is_told() -> None:
    """A login that was not renewed may be why the run failed, and `log` is where one looks."""
    told = {"type": "error", "message": "the login was not renewed"}
    assert logged(told) == tailed(told) == ["  error: the login was not renewed"]


def test_a_tool_stands_behind_the_question_about_it() -> None:
    """What a person allowed first was not done before they were asked."""
    assert logged(CALL, ASKED, resolved("allow_once", ME), DONE) == [
        "  ? write: Edit hello.txt?",
        "  = allow once, by you (coachman), pid 7",
        "  > write: hello.txt",
    ]


def test_a_tool_that_needs_no_answer_stays_where_it_began() -> None:
    """Text that came while a tool worked stands behind it, in one piece."""
    chunk = {"type": "agent.message_chunk", "message_id": "m", "text": "on it"}

    assert logged(CALL, chunk, DONE, chunk) == ["  > write: hello.txt", "on iton it"]


@pytest.mark.parametrize(
    ("status", "told"),
    [("failed", " [failed]"), ("in_progress", " [in progress]"), ("completed", "")],
)
def test_only_what_is_not_done_is_marked(status: str, told: str) -> None:
    """A tool's last state is told unless it is the expected one."""
    assert logged(CALL, {**DONE, "status": status}) == [f"  > write: hello.txt{told}"]


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("$ make\nno rule \x1b[1mto\n\n", "no rule \\x1b[1mto"),
        ({"output": "", "exit_code": 2}, "exit status 2"),
        ([{"type": "text", "text": "gone"}], "gone"),
        ("x" * 500, "x" * 159 + "…"),
    ],
)
def test_a_failed_tool_says_why(output: object, why: str) -> None:
    """The last line of its output is told in both, visible and shortened; of others it is not."""
    failed = {**DONE, "status": "failed"}
    said = {**DONE, "status": "in_progress", "output": output}

    assert logged(CALL, said, failed) == [f"  > write: hello.txt [failed: {why}]"]
    assert tailed(CALL, {**failed, "output": output})[-1] == f"  failed: hello.txt: {why}"
    assert tailed(CALL, said, failed)[-1] == f"  failed: hello.txt: {why}"
    assert logged(CALL, {**DONE, "output": output}) == ["  > write: hello.txt"]


@pytest.mark.parametrize(
    ("kind", "by", "outcome"),
    [
        ("allow_once", ME, "selected"),
        ("reject_once", {"resolver": "deadline"}, "expired"),
        (None, {"resolver": "cancel"}, "cancelled"),
        ("allow_always", {"resolver": "client", "client": "bot"}, "selected"),
    ],
)
def test_log_and_tail_use_the_same_words(
    kind: str | None, by: dict[str, Any], outcome: str
) -> None:
    """A tool, a question and its answer read alike in both."""
    events = (ASKED, resolved(kind, by, outcome), {**CALL, "status": "completed"})
    told = [line for line in tailed(*events) if "coachman answer" not in line]

    assert logged(*events) == told


@pytest.mark.parametrize(
    ("kind", "told"), [("allow_once", "allowed"), ("reject_once", "denied"), (None, "denied")]
)
def test_policy_answers_in_one_line(kind: str | None, told: str) -> None:
    """Where nobody was asked, nothing reads as if somebody had been."""
    events = (ASKED, resolved(kind, {"resolver": "policy", "mode": "allow"}))
    line = [f"  = {told} by policy: write: Edit hello.txt?"]

    assert logged(*events) == line
    assert tailed(*events, asking=False) == line


@pytest.mark.parametrize("error", ["no model", {"message": "no model"}])
def test_the_end_of_a_failed_run_has_its_reason(error: object) -> None:
    """A transcript that ends badly says why."""
    ended = {"type": "run.ended", "outcome": "timed_out", "stop_reason": "wall", "error": error}

    assert logged(ended) == ["  [timed out: no model]"]
    assert logged({**ended, "error": None}) == ["  [timed out: wall]"]
    assert logged({**ended, "outcome": "succeeded", "error": None}) == ["  [succeeded]"]


@pytest.mark.parametrize(
    ("reason", "prompt", "told"),
    [
        (
            "limit",
            2,
            "  [the provider takes no more for now: waiting, then the prompt is sent again]",
        ),
        ("retry", 3, "  [the agent broke: waiting, then the agent is told to go on]"),
    ],
)
def test_another_attempt_is_told_in_words(reason: str, prompt: int, told: str) -> None:
    """What is waited for, and whether the same prompt or another word is sent then."""
    queued = {"type": "prompt.queued", "prompt": prompt, "by": {"resolver": "retry"}, "title": ""}
    lines = tailed(
        {"type": "turn.started", "turn": 2, "prompt": 2, "title": "go"},
        {**queued, "first": True},
        {"type": "run.state", "to": "waiting", "reason": reason, "until": {}},
    )

    assert lines == ["  [turn 2: go]", told]


def test_a_tool_that_outlives_its_turn_did_not_finish() -> None:
    """What is at work in a turn may still end; behind it, nobody will hear of that."""
    working = {**CALL, "status": "in_progress"}
    over = {"type": "turn.ended", "turn": 1, "stop_reason": "cancelled"}

    assert logged(working, over)[0] == "  > write: hello.txt [not finished]"
    assert logged(working)[0] == "  > write: hello.txt [in progress]"
    assert logged(working, over, DONE)[0] == "  > write: hello.txt"


@pytest.mark.parametrize(
    ("title", "told"),
    [("/workspace/hello.txt", "hello.txt"), ("Wrote hello.txt", "Wrote hello.txt")],
)
def test_a_file_is_named_as_it_was_first(title: str, told: str) -> None:
    """A title that only makes the path whole says nothing new; any other is the better one."""
    assert logged(CALL, {**DONE, "title": title}) == [f"  > write: {told}"]


def test_the_words_of_a_denial_are_told() -> None:
    """What the agent was told with it stands behind who said it."""
    denial = {**resolved("reject_once", ME), "message": "not in here"}
    line = "  = reject once, by you (coachman), pid 7: not in here"

    assert logged(ASKED, denial)[-1] == tailed(ASKED, denial)[-1] == line


def test_a_check_is_told() -> None:
    """Its command, and how it ended; of one that failed, the end of what it said."""
    began = {"type": "check.started", "command": "make test"}
    ended = {"type": "check.ended", "exit": 2, "signal": None, "output": "one\ntwo\n"}

    assert logged(began, {**ended, "exit": 0}) == ["  [check: make test]", "  [check passed]"]
    assert logged(began, ended) == [
        "  [check: make test]",
        "  [check failed: exit status 2]",
        "  | one\n  | two",
    ]
    assert tailed(began, ended) == logged(began, ended)[:2]


@pytest.mark.parametrize("then", ["again", "waits", "given_up"])
def test_a_feed_that_fails_is_told_in_the_same_words(then: str) -> None:
    """Which program, why, and what follows stand in both."""
    failed = {"type": "feed.failed", "program": "/p/tell", "reason": "it died", "then": then}
    ends = {"again": ", is run again", "waits": "", "given_up": ", gets no more"}

    assert logged(failed) == [f"  [/p/tell, fed these events: it died{ends[then]}]"]
    assert tailed(failed) == logged(failed)


def test_notices_are_notes() -> None:
    """A notice of the agent is told as one."""
    assert logged({"type": "agent.notice", "text": "careful"}) == ["  note: careful"]


def test_an_answer_has_its_own_mark(state_dir: Path) -> None:
    """`log` prints questions and answers as `tail` does."""
    lines = [
        {"seq": 1, "ts": 0, "kind": "permission", "text": "write: Edit a?"},
        {"seq": 2, "ts": 0, "kind": "answer", "text": "allow once, by ann"},
    ]
    page = {"lines": lines, "truncated": False, "next_cursor": None}
    with FakeDaemon(state_dir / "control.sock", {"run.log": page}):
        done = coachman(state_dir, "log", RUN)

    assert done.stdout == "  ? write: Edit a?\n  = allow once, by ann\n"


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ({"resolver": "rule", "rule": "deny edit x*"}, "by rule deny edit x*"),
        ({"resolver": "file", "path": "/home/me/q"}, "by the file /home/me/q"),
        ({"resolver": "hook", "path": "/home/me/hook"}, "by the hook /home/me/hook"),
    ],
)
def test_a_rule_or_handler_that_settled_a_question_or_did_not_is_named(
    by: dict[str, Any], words: str
) -> None:
    """Both read alike: which it was, and why it left a question to others."""
    passed = {"type": "permission.passed", "request": "p1", "by": by, "reason": "it was silent"}
    logs = "\n".join(logged(ASKED, passed, resolved("allow_once", by)))
    tails = "\n".join(tailed(ASKED, passed, resolved("allow_once", by)))

    for text in (logs, tails):
        assert f"not settled {words}: it was silent" in text
        assert f"allow once, {words}" in text
