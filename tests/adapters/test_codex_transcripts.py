"""Recordings of the real codex, in both its forms: what each of them tells of its run."""

from typing import Any

import pytest

import agents_replay
from agents_replay import ended, events_of, replay, stdin_of, text_of
from coachman_adapters.codex import CODEX
from coachman_adapters.conversation import Action, Ask, SessionKnown, Usage

EXEC, SERVER = "codex-exec", "codex-app-server"
# How each scripted turn reads, whichever way it was run.
ENDS: dict[str, tuple[str, list[str], list[str]]] = {
    "say": ("hello world", [], ["end_turn"]),
    "write_allowed": ("done", ["completed"], ["end_turn"]),
    "run": ("thought about it", ["failed"], ["end_turn"]),
    "think": ("thought about it", [], ["end_turn"]),
    "resume": ("well", ["completed"], ["end_turn"]),
    "unknown_model": ("hello", [], ["end_turn"]),
    "max_tokens": ("part", [], ["max_tokens"]),
    "retried": ("partwell", [], ["end_turn"]),
    "refused": ("part" * 6, [], ["refusal"]),
    "model_error": ("", [], ["error"]),
    "server_error": ("", [], ["error"]),
    "broken_stream": ("", [], ["error"]),
    "limited": ("", [], ["limited"]),
    "wrong_session": ("", [], ["error"]),
}
SERVER_ENDS = {
    "in_words": ("heard", ["completed"], ["end_turn"]),
    "write_denied": ("done", ["failed"], ["end_turn"]),
    "run_denied": ("well", ["failed"], ["end_turn"]),
    "allowed_always": ("well", ["completed", "completed"], ["end_turn"]),
    "two_turns": ("onetwo", [], ["end_turn", "end_turn"]),
    "cancel_stream": ("one ", [], ["cancelled"]),
    "cancel_question": ("", ["cancelled"], ["cancelled"]),
    "cancel_tool": ("", ["cancelled"], ["cancelled"]),
    "question_cancelled": ("", ["failed"], ["cancelled"]),
    "cancelled_then_more": ("more", ["cancelled"], ["cancelled", "end_turn"]),
}
EXPECTED = {
    **{(EXEC, name): end for name, end in ENDS.items()},
    **{(SERVER, name): end for name, end in {**ENDS, **SERVER_ENDS}.items()},
}
# codex counts no answer that was filtered or cut off.
UNCOUNTED = {
    *((part, name) for part in (EXEC, SERVER) for name in ("refused", "retried")),
    (SERVER, "cancel_stream"),
}
BOTH = pytest.mark.parametrize("part", [EXEC, SERVER])


def run(part: str, name: str) -> list[Action]:
    told = agents_replay.load(part, name)
    return replay(CODEX.converse(agents_replay.request_of(told)), told["steps"])


def usages(part: str, name: str) -> list[Usage]:
    return [action for action in run(part, name) if isinstance(action, Usage)]


def statuses(actions: list[Action]) -> list[str]:
    """The last status of each tool call."""
    status: dict[str, str] = {}
    for event in events_of(actions):
        if event.type.startswith("tool.") and "status" in event.members:
            status[event.members["tool_call_id"]] = event.members["status"]
    return list(status.values())


def error_of(part: str, name: str) -> dict[str, Any]:
    [end] = ended(run(part, name))
    return dict(end.error or {})


def test_every_recording_is_expected() -> None:
    """No recording goes untested."""
    recorded = {(part, name) for part in (EXEC, SERVER) for name in agents_replay.names(part)}
    assert recorded == set(EXPECTED)


@pytest.mark.parametrize(("part", "name"), EXPECTED)
def test_a_recording_tells_its_run(part: str, name: str) -> None:
    """Text, tool results and stop reasons are those of the scripted turn."""
    actions = run(part, name)

    told = (text_of(actions), statuses(actions), [end.stop_reason for end in ended(actions)])
    assert told == EXPECTED[part, name]


@pytest.mark.parametrize(("part", "name"), [each for each in EXPECTED if each not in UNCOUNTED])
def test_usage_is_what_the_model_reported(part: str, name: str) -> None:
    """The run's share of the thread is the server's log; a failed turn counts what it had used."""
    reported = agents_replay.load(part, name)["usage"]
    told = usages(part, name)

    if not any(reported.values()):
        assert told == []
        return
    assert told[-1].counters == {**reported, "reasoning": 0, "total": sum(reported.values())}


@BOTH
def test_an_answer_that_is_asked_for_again_is_no_failure(part: str) -> None:
    """codex says that it reconnects, and the turn ends as its next answer does."""
    labels = [event.members["label"] for event in events_of(run(part, "retried"), "agent.status")]

    assert [label.split(" (")[0] for label in labels] == ["Reconnecting... 1/5"]


@BOTH
def test_a_resumed_thread_goes_on_counting(part: str) -> None:
    """The thread's totals go to whoever resumes it, the run's own tokens into its usage."""
    before = agents_replay.load(part, "resume")["session_counters"]
    last = usages(part, "resume")[-1]

    assert before["input_tokens"] == 1040
    assert last.session_counters is not None
    assert last.session_counters["input_tokens"] == 3180
    assert last.counters["input"] + last.counters["cached_input"] == 3180 - 1040


@BOTH
def test_the_model_and_its_provider_are_codexs_own(part: str) -> None:
    """Neither was asked for; exec itself tells neither, its record of the thread does."""
    last = usages(part, "say")[-1]

    assert (last.model, last.provider) == ("gpt-5.5", "openai")


def test_the_session_is_the_thread() -> None:
    """The thread is told as soon as codex names it, with the version where that is told."""
    known = [
        [action for action in run(part, "say") if isinstance(action, SessionKnown)]
        for part in (EXEC, SERVER)
    ]

    session = "00000000-0000-4000-8000-000000000001"
    assert known == [[SessionKnown(session)], [SessionKnown(session, "0.171.0")]]


@BOTH
def test_a_models_error_reads_as_the_model_told_it(part: str) -> None:
    """codex quotes the whole body of the answer; its message is what counts."""
    assert error_of(part, "model_error")["message"] == "scripted failure 400"


def test_an_error_of_the_app_server_has_its_kind() -> None:
    """The kind is the error's code; what else codex knows of it is its data."""
    error = error_of(SERVER, "limited")

    assert error["message"] == "exceeded retry limit, last status: 429 Too Many Requests"
    assert error["code"] == "responseTooManyFailedAttempts"
    assert error["data"]["codexErrorInfo"][error["code"]] == {"httpStatusCode": 429}


@BOTH
def test_a_lost_session_is_named(part: str) -> None:
    """The error says which session, and why there is none."""
    message = error_of(part, "wrong_session")["message"]

    assert message.startswith("cannot resume session 01a22b00-0000-7000-8000-00000000dead: ")
    assert "no rollout found" in message


def test_a_patch_is_asked_with_its_text() -> None:
    """The question names the file and shows what is to be in it."""
    [ask] = [action for action in run(SERVER, "write_allowed") if isinstance(action, Ask)]

    assert ask.question == "Edit /workspace/notes.md?"
    change = {"type": "diff", "path": "/workspace/notes.md", "newText": "hello\n"}
    assert ask.tool["content"] == [change]
    kinds = [option.kind for option in ask.options]
    assert kinds == ["allow_once", "allow_always", "reject_once"]


def test_a_command_is_asked_as_the_model_gave_it() -> None:
    """The shell around it is codex's own; the rule that an answer would make is named."""
    first, *more = [action for action in run(SERVER, "allowed_always") if isinstance(action, Ask)]

    assert more == []
    assert first.question == "Run touch a?"
    names = {option.kind: option.name for option in first.options}
    assert names["allow_always"] == "Always allow: touch a"


def test_an_interrupted_turn_ends_after_its_commands() -> None:
    """codex would leave them running: they are ended first, then the turn is told as over."""
    told = agents_replay.load(SERVER, "cancel_tool")
    conversation = CODEX.converse(agents_replay.request_of(told))
    at = next(
        n for n, step in enumerate(told["steps"]) if "turn/completed" in step.get("stdout", "")
    )
    before = replay(conversation, told["steps"][: at + 1])
    after = replay(conversation, told["steps"][at + 1 : at + 2])

    assert b"thread/backgroundTerminals/clean" in stdin_of(before).splitlines()[-1]
    assert ended(before) == []
    assert [end.stop_reason for end in ended(after)] == ["cancelled"]
