"""Recordings of the real opencode: the same bytes give the same run, always."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agents_replay
from agents_replay import ended, events_of, rechunk, replay, stdin_of, text_of
from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import (
    Action,
    Ask,
    Conversation,
    SessionKnown,
    TurnEnded,
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


def last_status(actions: list[Action]) -> list[str]:
    """The last status of each tool call."""
    status: dict[str, str] = {}
    for event in events_of(actions):
        if event.type.startswith("tool.") and "status" in event.members:
            status[event.members["tool_call_id"]] = event.members["status"]
    return list(status.values())


def test_every_recording_is_expected() -> None:
    """No recording goes untested."""
    assert set(NAMES) == set(EXPECTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_tells_its_run(name: str) -> None:
    """Text, tool results and stop reasons are those of the scripted turn."""
    actions = run(name)

    told = (text_of(actions), last_status(actions), [end.stop_reason for end in ended(actions)])
    assert told == EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_writes_the_same_stdin(name: str) -> None:
    """Feeding a recording again writes exactly what was written then."""
    assert stdin_of(run(name)).decode() == agents_replay.load("opencode", name)["stdin"]


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


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(data=st.data())
def test_chunks_do_not_matter(name: str, data: st.DataObject) -> None:
    """However stdout is cut into reads, the actions are the same."""
    told = agents_replay.load("opencode", name)
    sizes = data.draw(st.lists(st.integers(1, 900), min_size=1, max_size=30))

    def cut(held: bytes) -> list[bytes]:
        found, start = [], 0
        while start < len(held):
            size = sizes[len(found) % len(sizes)]
            found.append(held[start : start + size])
            start += size
        return found

    conversation = converse(told)
    actions = [action for step in rechunk(told["steps"], cut) for action in step(conversation)]

    assert actions == replay(converse(told), told["steps"])


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_at_any_point_continues_the_same(name: str) -> None:
    """Taken as JSON after any step, a snapshot in a new conversation goes on identically."""
    told = agents_replay.load("opencode", name)
    steps = told["steps"]
    whole = replay(converse(told), steps)
    first = converse(told)
    before: list[Action] = []
    for at, step in enumerate(steps):
        before += agents_replay.feed(first, step)
        second = converse(told)
        second.restore(json.loads(json.dumps(first.snapshot())))
        assert before + replay(second, steps[at + 1 :]) == whole
        assert second.snapshot() == replayed_snapshot(told, steps)


def replayed_snapshot(told: dict[str, Any], steps: list[agents_replay.Step]) -> dict[str, Any]:
    conversation = converse(told)
    replay(conversation, steps)
    return conversation.snapshot()


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_inside_a_line_continues_the_same(name: str) -> None:
    """A snapshot in the middle of a frame keeps the part that was read."""
    told = agents_replay.load("opencode", name)
    conversation = converse(told)
    actions: list[Action] = []

    def halves(held: bytes) -> list[bytes]:
        return [held[: len(held) // 2], held[len(held) // 2 :]]

    for step in rechunk(told["steps"], halves):
        actions += step(conversation)
        snapshot = json.loads(json.dumps(conversation.snapshot()))
        conversation = converse(told)
        conversation.restore(snapshot)

    assert actions == replay(converse(told), told["steps"])


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_cut_short_never_ends_well(name: str) -> None:
    """Whatever the last thing was that an agent said before it died, a turn ends in error."""
    steps = [step for step in agents_replay.load("opencode", name)["steps"] if "finish" not in step]
    told = agents_replay.load("opencode", name)
    dead = {"finish": {"exit_code": None, "signal": 9}}
    for at in range(2, len(steps)):
        conversation = converse(told)
        actions = replay(conversation, steps[:at])
        open_turns = sum("prompt" in step for step in steps[:at]) - len(ended(actions))

        last = ended(agents_replay.feed(conversation, dead))

        assert [end.stop_reason for end in last] == ["error"] * open_turns
        assert all(isinstance(end, TurnEnded) and end.error for end in last)
