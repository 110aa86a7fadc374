"""Recordings of the real pi: what each of them tells of its run."""

import pytest

import agents_replay
from agents_replay import ended, events_of, last_status, replay, text_of
from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import Action, Ask, SessionKnown, Usage

NAMES = agents_replay.names("pi")
EXPECTED = {
    "say": ("hello world", [], ["end_turn"]),
    "write_allowed": ("done", ["completed"], ["end_turn"]),
    "write_denied": ("done", ["failed"], ["end_turn"]),
    "run": ("thought about it", ["failed"], ["end_turn"]),
    "cancel_stream": ("one ", [], ["cancelled"]),
    "cancel_question": ("", ["failed"], ["cancelled"]),
    "cancel_tool": ("", ["failed"], ["cancelled"]),
    "model_error": ("", [], ["error"]),
    "limited": ("", [], ["limited"]),
    "resume": ("well", ["completed"], ["end_turn"]),
    "two_turns": ("onetwo", [], ["end_turn", "end_turn"]),
    "wrong_model": ("", [], ["error"]),
    "wrong_session": ("", [], ["error"]),
}
# What a model had no time to report is in no message of pi's.
UNREPORTED = {"cancel_stream"}


def run(name: str) -> list[Action]:
    told = agents_replay.load("pi", name)
    return replay(ADAPTERS["pi"].converse(agents_replay.request_of(told)), told["steps"])


def error_of(name: str) -> str:
    [end] = ended(run(name))
    assert end.error is not None
    return str(end.error["message"])


def test_every_recording_is_expected() -> None:
    """No recording goes untested."""
    assert set(NAMES) == set(EXPECTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_tells_its_run(name: str) -> None:
    """Text, tool results and stop reasons are those of the scripted turn."""
    actions = run(name)

    told = (text_of(actions), last_status(actions), [end.stop_reason for end in ended(actions)])
    assert told == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNREPORTED))
def test_usage_is_what_the_model_reported(name: str) -> None:
    """The sum over the answers is the server's, and a resumed session's past is not in it."""
    reported = agents_replay.load("pi", name)["usage"]
    usages = [action for action in run(name) if isinstance(action, Usage)]

    if not any(reported.values()):
        assert usages == []
        return
    last = usages[-1]
    assert {key: last.counters[key] for key in reported} == reported
    assert last.counters["total"] == sum(reported.values())
    assert last.cost_usd == pytest.approx(
        (reported["input"] + 0.5 * reported["cached_input"] + 2 * reported["output"]) / 1e6
    )
    assert last.provider == "fake"


def test_no_usage_is_made_up_for_an_answer_that_was_cut_off() -> None:
    """A cancelled stream reports zeros, which are unknown and not nothing."""
    assert [action for action in run("cancel_stream") if isinstance(action, Usage)] == []


def test_the_session_is_pis_own() -> None:
    """The session is known before the first prompt is sent, and is the one resumed."""
    actions = run("resume")
    [known] = [action for action in actions if isinstance(action, SessionKnown)]

    assert known.session == agents_replay.load("pi", "resume")["session"]


def test_a_write_is_asked_with_what_it_writes() -> None:
    """The question names the file; the call was told before, and runs once it is allowed."""
    actions = run("write_allowed")

    [ask] = [action for action in actions if isinstance(action, Ask)]
    assert ask.question == "Edit notes.md?"
    assert ask.tool["input"] == {"path": "notes.md", "content": "hello\n"}
    assert [option.kind for option in ask.options] == ["allow_once", "allow_always", "reject_once"]
    statuses = [
        event.members["status"]
        for event in events_of(actions)
        if event.type in ("tool.call", "tool.call_update")
    ]
    assert statuses == ["pending", "in_progress", "completed"]


def test_errors_keep_pis_words() -> None:
    """A model's failure, an unknown model and a lost session read as pi told them."""
    assert "scripted failure 400" in error_of("model_error")
    assert "scripted limit" in error_of("limited")
    assert 'Model "nothing-like-it" not found' in error_of("wrong_model")
    assert "No session found matching" in error_of("wrong_session")


def test_each_new_try_is_told() -> None:
    """pi tries again by itself after a limit, and a watcher sees why nothing happens."""
    labels = [event.members["label"] for event in events_of(run("limited"), "agent.status")]

    assert len(labels) == 3
    assert labels[0].startswith("trying again in 2 s: 429")
