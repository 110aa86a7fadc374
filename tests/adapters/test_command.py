"""Any program as an agent: prompt in, output out, exit status as the verdict."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents_driver import Drive
from agents_replay import ended, events_of, stdin_of, text_of
from coachman_adapters import ADAPTERS
from coachman_adapters.command import CommandConversation
from coachman_adapters.conversation import (
    AgentRequest,
    Cancel,
    CloseStdin,
    Ending,
    Prompt,
    SetTimer,
    TurnEnded,
    Write,
)

COMMAND = ADAPTERS["command"]


def drive(tmp_path: Path, script: str, prompt: str = "") -> Drive:
    argv = (sys.executable, "-I", "-S", "-c", script)
    request = AgentRequest(cwd=str(tmp_path), home=str(tmp_path), argv=argv)
    work = tmp_path / "work"
    work.mkdir()
    plan = COMMAND.plan(request)
    drive = Drive(COMMAND.converse(request), plan.argv, cwd=work, env=os.environ)
    drive.run([prompt])
    return drive


def test_the_prompt_is_stdin_and_stdout_the_message(tmp_path: Path) -> None:
    """The program reads the prompt up to EOF; what it prints is one message."""
    script = "import sys; print(sys.stdin.read().upper()); print('last', end='')"

    ran = drive(tmp_path, script, "do\nit")

    assert stdin_of(ran.actions) == b"do\nit"
    assert text_of(ran.actions) == "DO\nIT\nlast"
    assert {event.members["message_id"] for event in events_of(ran.actions)} == {"stdout"}
    assert ended(ran.actions) == [TurnEnded("end_turn")]


def test_an_empty_prompt_is_just_the_end_of_stdin(tmp_path: Path) -> None:
    """A program without a prompt does not wait for one."""
    ran = drive(tmp_path, "import sys; print(len(sys.stdin.read()))")

    assert text_of(ran.actions) == "0\n"


def test_a_failing_program_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """A non-zero exit ends the turn with an error that quotes stderr."""
    ran = drive(tmp_path, "import sys; print('half'); sys.exit('no such file')")

    [over] = ended(ran.actions)
    assert over.stop_reason == "error"
    assert over.error["message"] == "the program exited with status 1: no such file"
    assert text_of(ran.actions) == "half\n"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "bwrap: execvp tool: No such file or directory",
            "cannot run tool: no such program in the sandbox; "
            "of the host only /usr is in there, of the repository what is committed",
        ),
        (
            "bwrap: execvp ./a: b.sh: No such file or directory",
            "cannot run ./a: b.sh: no such program in the sandbox; "
            "is it committed? uncommitted files are not in the worktree",
        ),
        (
            "bwrap: execvp ./notes.txt: Permission denied",
            "cannot run ./notes.txt: it is not an executable file",
        ),
        ("bwrap: execvp x: Argument list too long", "cannot run x: Argument list too long"),
        (
            "warning\nbwrap: Can't find source path /x: gone",
            "cannot start the program: Can't find source path /x: gone",
        ),
        ("", "the program ended without an exit status"),
    ],
)
def test_a_program_that_never_started_is_told_in_plain_words(said: str, told: str) -> None:
    """Without an exit status, what bubblewrap complained of becomes a reason and a hint."""
    [over] = CommandConversation().finish(Ending(None, None, said.encode()))

    assert over.error["message"] == told


def test_a_program_that_talks_like_bubblewrap_did_start() -> None:
    """With an exit status the words are the program's own."""
    said = b"bwrap: execvp tool: No such file or directory"

    [over] = CommandConversation().finish(Ending(1, None, said))

    assert over.error["message"] == f"the program exited with status 1: {said.decode()}"


def test_the_exit_status_of_a_program_decides() -> None:
    """Only of a program is silence with status 0 a success; an agent has to say or do something."""
    deciding = {name for name, agent in ADAPTERS.items() if agent.spec.exit_status_decides}

    assert deciding == {"command"}


@pytest.mark.parametrize("ending", [Ending(0, None), Ending(None, 15), Ending(3, None)])
def test_a_cancelled_program_ended_by_the_cancel(ending: Ending) -> None:
    """After a cancel any end confirms it; stdin is closed, and nothing is written."""
    conversation = CommandConversation()

    assert conversation.intend(Cancel()) == [CloseStdin()]
    assert conversation.intend(Prompt(1, "late")) == []
    assert conversation.finish(ending) == [TurnEnded("cancelled")]


def test_the_prompt_is_fed_once() -> None:
    """A bounded program takes one prompt."""
    conversation = CommandConversation()

    assert conversation.start() == conversation.expire("any") == []
    assert conversation.intend(Prompt(1, "a")) == [Write(b"a"), CloseStdin()]
    assert conversation.intend(Prompt(2, "b")) == conversation.intend(Cancel()) == []


def test_output_is_text_whatever_its_bytes() -> None:
    """Broken UTF-8 is replaced; lines of any length are split into events."""
    conversation = CommandConversation()

    actions = conversation.receive(b"\xff\xfe\r\n" + b"x" * 1_000_000 + b"\n")

    assert text_of(actions) == "\ufffd\ufffd\r\n" + "x" * 1_000_000 + "\n"
    assert max(len(event.members["text"]) for event in events_of(actions)) <= 32 * 1024


@given(st.lists(st.sampled_from([b"\n", b"line\n", "ü€😀".encode(), b"x" * 40_000, b"\xff", b"q"])))
def test_blocks_never_depend_on_how_the_bytes_arrived(parts: list[bytes]) -> None:
    """Fed byte by byte or at once, the same chunks come out, and together they are the output."""
    whole = b"".join(parts)
    at_once, in_parts = CommandConversation(), CommandConversation()

    expected = [*at_once.receive(whole), *at_once.finish(Ending(0, None))]
    told = [action for part in parts for half in _halves(part) for action in in_parts.receive(half)]
    told += in_parts.finish(Ending(0, None))

    assert events_of(told) == events_of(expected)
    data = [whole[e.span.offset : e.span.offset + e.span.size] for e in events_of(told)]
    assert b"".join(data) == whole
    assert text_of(told) == "".join(piece.decode("utf-8", "replace") for piece in data)


def _halves(part: bytes) -> list[bytes]:
    return [part[: len(part) // 2], part[len(part) // 2 :]]


def test_a_flood_of_lines_becomes_few_events() -> None:
    """Ten million empty lines are told in blocks, not line by line."""
    conversation = CommandConversation()
    told = [action for _ in range(160) for action in conversation.receive(b"\n" * 65536)]

    assert len(events_of(told)) < 1500


def test_the_first_lines_are_told_one_by_one() -> None:
    """A program that says little is watched line by line."""
    told = CommandConversation().receive(b"one\ntwo\nthree\n")

    assert [event.members["text"] for event in events_of(told)] == ["one\n", "two\n", "three\n"]


def test_what_has_no_newline_is_shown_after_a_moment_of_silence() -> None:
    """A question on an open line arms the flush timer; its expiry tells the line so far."""
    conversation = CommandConversation()

    assert conversation.receive(b"Sure? ") == [SetTimer("flush", 0.25)]
    assert text_of(conversation.expire("flush")) == "Sure? "
    assert text_of(conversation.receive(b"yes\n")) == "yes\n"


def test_a_snapshot_continues_inside_a_line() -> None:
    """Restored in the middle of a line, the output goes on as one."""
    first, second = CommandConversation(), CommandConversation()
    first.intend(Prompt(1, ""))
    first.receive(b"one\ntw")
    second.restore(json.loads(json.dumps(first.snapshot())))

    actions = second.receive(b"o\nrest") + second.finish(Ending(0, None))

    assert text_of(actions) == "two\nrest"
    assert second.intend(Prompt(1, "again")) == []
    assert events_of(actions)[0].span.offset == 4


def test_a_command_without_a_program_is_refused() -> None:
    """The plan says what is missing."""
    with pytest.raises(ValueError, match="name the program"):
        COMMAND.plan(AgentRequest(cwd="/workspace", home="/home/agent"))
