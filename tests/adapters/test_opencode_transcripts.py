"""Recordings of the real opencode: the same bytes give the same run, always."""

from typing import Any

import pytest

import agents_replay
from agents_replay import ended, last_status, replay, text_of
from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import (
    Action,
    Ask,
    Conversation,
    SessionKnown,
    Usage,
)

NAMES = agents_replay.names("opencode")
EXPECTED = {
    "say": ("hello world", [], ["end_turn"]),
    "write_allowed": ("done", ["completed"], ["end_turn"]),
    "write_denied": ("", ["failed"], ["end_turn"]),
    "run": ("thought about it", ["completed"], ["end_turn"]),
    "cancel_stream": ("one ", [], ["cancelled"]),
    "cancel_question": ("", ["failed"], ["cancelled"]),
    "cancel_tool": ("", ["failed"], ["cancelled"]),
    "model_error": ("", [], ["error"]),
    "resume": ("well", ["completed"], ["end_turn"]),
    "two_turns": ("onetwo", [], ["end_turn", "end_turn"]),
    "wrong_model": ("", [], ["error"]),
    "wrong_session": ("", [], ["error"]),
}
UNCOUNTED = {name for name, (_, _, ends) in EXPECTED.items() if "end_turn" not in ends}


def converse(told: dict[str, Any]) -> Conversation:
    return ADAPTERS["opencode"].converse(agents_replay.request_of(told))


def run(name: str) -> list[Action]:
    told = agents_replay.load("opencode", name)
    return replay(converse(told), told["steps"])


def test_every_recording_is_expected() -> None:
    """No recording goes untested."""
    assert set(NAMES) == set(EXPECTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_tells_its_run(name: str) -> None:
    """Text, tool results and stop reasons are those of the scripted turn."""
    actions = run(name)

    told = (text_of(actions), last_status(actions), [end.stop_reason for end in ended(actions)])
    assert told == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNCOUNTED))
def test_usage_is_what_the_model_reported(name: str) -> None:
    """The export's totals are the server's, titles left out, a resumed session's past too."""
    usages = [action for action in run(name) if isinstance(action, Usage)]

    assert len(usages) == 1
    reported = agents_replay.load("opencode", name)["usage"]
    assert {key: usages[0].counters[key] for key in reported} == reported


@pytest.mark.parametrize("name", sorted(UNCOUNTED))
def test_turns_without_an_account_report_no_usage(name: str) -> None:
    """opencode's export counts nothing for a step that was cancelled or failed."""
    assert [action for action in run(name) if isinstance(action, Usage)] == []


def test_the_session_is_opencodes_own() -> None:
    """Session and version are told as soon as the agent names them."""
    [known] = [action for action in run("say") if isinstance(action, SessionKnown)]

    assert known == SessionKnown("ses_0001", "1.18.33")


def test_an_edit_is_asked_with_its_diff() -> None:
    """The question names the file and carries the diff; the stray write request is declined."""
    actions = run("write_allowed")

    [ask] = [action for action in actions if isinstance(action, Ask)]
    assert ask.question == "Edit /workspace/notes.md?"
    assert ask.tool["name"] == "write"
    assert ask.tool["content"][0]["newText"] == "hello\n"
    assert [option.kind for option in ask.options] == ["allow_once", "allow_always", "reject_once"]
    assert (
        '"id":1,"error":{"code":-32601' in agents_replay.load("opencode", "write_allowed")["stdin"]
    )


def test_errors_keep_the_agents_words() -> None:
    """A model's failure and a lost session read as opencode told them."""
    messages = [ended(run(name))[0].error["message"] for name in ("model_error", "wrong_session")]

    assert messages == [
        "Internal error: scripted failure 400",
        "cannot resume session ses_nosuchsession0000000000: "
        "Internal error: OpenCode service failure",
    ]
