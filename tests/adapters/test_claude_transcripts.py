"""Recordings of the real Claude Code: what each tells of its run."""

from typing import Any

import pytest

import agents_replay
from agents_replay import ended, events_of, last_status, replay, text_of
from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import Action, Ask, Reset, SessionKnown, Usage

NAMES = agents_replay.names("claude")
# Text, the last status of each tool, and how each turn ended.
EXPECTED: dict[str, tuple[str, list[str], list[str]]] = {
    "say": ("hello world", [], ["end_turn"]),
    "write_allowed": ("done", ["completed"], ["end_turn"]),
    "write_denied": ("done", ["failed"], ["end_turn"]),
    "run": ("thought about it", ["failed"], ["end_turn"]),
    "cancel_stream": ("one ", [], ["cancelled"]),
    "cancel_question": ("", ["failed"], ["cancelled"]),
    "cancel_tool": ("", ["failed"], ["cancelled"]),
    "model_error": ("", [], ["error"]),
    "resume": ("well", ["completed"], ["end_turn"]),
    "two_turns": ("onetwo", [], ["end_turn", "end_turn"]),
    "wrong_session": ("", [], ["error"]),
    "two_questions": ("done", ["completed", "completed"], ["end_turn"]),
    "allowed_always": ("done", ["completed", "completed"], ["end_turn"]),
    "denied_with_words": ("understood", ["failed"], ["end_turn"]),
    "question": ("done", ["completed"], ["end_turn"]),
    "subagent": ("done", ["completed", "completed"], ["end_turn"]),
    "as_agent": ("little", [], ["end_turn"]),
    "max_turns": ("", ["completed"], ["max_turn_requests"]),
    "max_tokens": ("part 0part 1part 2part 3", [], ["max_tokens"]),
    "refused": ("nono", [], ["refusal"]),
    "server_error": ("", [], ["error"]),
    "limited": ("", [], ["limited"]),
    "usage_limit": ("", [], ["limited"]),
    "not_logged_in": ("", [], ["error"]),
    "wrong_agent": ("", [], ["error"]),
}
# Of a request that was cut off, the model's log has what was meant to come.
CUT_OFF = "cancel_stream"


def run(name: str) -> list[Action]:
    told = agents_replay.load("claude", name)
    conversation = ADAPTERS["claude"].converse(agents_replay.request_of(told))
    return replay(conversation, told["steps"])


def asks(name: str) -> list[Ask]:
    return [action for action in run(name) if isinstance(action, Ask)]


def error(name: str) -> dict[str, Any]:
    [end] = ended(run(name))
    return dict(end.error or {})


def test_every_recording_is_expected() -> None:
    """No recording goes untested."""
    assert set(NAMES) == set(EXPECTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_tells_its_run(name: str) -> None:
    """Text, told once, tool results and stop reasons are those of the scripted turn."""
    actions = run(name)

    told = (text_of(actions), last_status(actions), [end.stop_reason for end in ended(actions)])
    assert told == EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
def test_usage_is_what_the_model_reported(name: str) -> None:
    """Subagents, cut turns and a resumed session's past included: the run's own, no more."""
    usages = [action for action in run(name) if isinstance(action, Usage)]
    reported = agents_replay.load("claude", name)["usage"]
    if name == CUT_OFF:
        reported["output"] = 1

    if reported["input"]:
        assert usages[-1].counters.items() >= reported.items()
        assert usages[-1].model == "claude-sonnet-4-5"
        assert usages[-1].provider == "anthropic"
    else:
        assert usages == []


@pytest.mark.parametrize("name", ["say", "resume", "two_turns", "subagent"])
def test_the_cost_is_the_runs(name: str) -> None:
    """At the list's prices, though the CLI adds up the cost of a session over its resumes."""
    [*_, usage] = [action for action in run(name) if isinstance(action, Usage)]

    counters = usage.counters
    tokens = 3 * counters["input"] + 0.3 * counters["cached_input"] + 15 * counters["output"]
    assert usage.cost_usd == pytest.approx(tokens / 1e6)


def test_nothing_is_unknown_and_nothing_noise() -> None:
    """Every message of every recording is one that the conversation understands."""
    strange = [e for n in NAMES for e in events_of(run(n)) if e.type.rpartition(".")[2] != "notice"]

    assert {e.type for e in strange} & {"agent.unknown", "agent.noise"} == set()


def test_the_session_is_claudes_own() -> None:
    """It is known once, with the version, though each turn names it anew."""
    [known] = [action for action in run("two_turns") if isinstance(action, SessionKnown)]

    assert known == SessionKnown("00000000-0000-4000-8000-000000000001", "2.1.332")


def test_a_wrong_session_is_not_known() -> None:
    """The id that the CLI echoes in its failure is no session of the run's."""
    assert not [action for action in run("wrong_session") if isinstance(action, SessionKnown)]
    assert error("wrong_session")["code"] == "cannot_resume"
    assert "No conversation found" in error("wrong_session")["message"]


def test_an_edit_is_asked_with_its_diff() -> None:
    """The question names the file by its whole path and carries what is to be written."""
    [ask] = asks("write_allowed")

    assert ask.question == "Edit /workspace/notes.md?"
    assert ask.tool["name"] == "Write"
    assert ask.tool["content"][0]["newText"] == "hello\n"
    assert [option.kind for option in ask.options] == ["allow_once", "reject_once"]


def test_every_use_is_asked_where_the_run_decides() -> None:
    """Each of two edits is a question of its own; a person may allow both at once."""
    told = agents_replay.load("claude", "allowed_always")["stdin"]

    assert [ask.request for ask in asks("two_questions")] == ["p1", "p2"]
    [ask] = asks("allowed_always")
    assert [option.kind for option in ask.options] == ["allow_once", "allow_always", "reject_once"]
    assert ask.options[1].name == "Allow in this session: mode acceptEdits"
    assert '"destination":"session"' in told


def test_a_denial_carries_its_words() -> None:
    """What was said with a denial, or else a reason of ours, is what the tool failed with."""
    outputs = [
        [event.members["output"] for event in events_of(run(name)) if "output" in event.members]
        for name in ("denied_with_words", "write_denied")
    ]

    assert outputs == [["Leave the notes alone."], ["Permission to use this tool was denied."]]


def test_a_question_of_the_models_has_its_own_options() -> None:
    """Each choice is an option, besides words of one's own; the chosen one is the answer."""
    [ask] = asks("question")
    outputs = [e.members["output"] for e in events_of(run("question")) if "output" in e.members]

    assert ask.question == "Which one?"
    assert [(option.name, option.requires_message) for option in ask.options] == [
        ("Left", False),
        ("Right", False),
        ("Answer in your own words", True),
        ("Deny", False),
    ]
    assert '"Which one?"="Left"' in outputs[0]


def test_a_thought_is_told_apart() -> None:
    """Thinking is no part of the message."""
    thoughts = events_of(run("run"), "agent.thought_chunk")

    assert [event.members["text"] for event in thoughts] == ["what now"]


def test_a_subagents_tools_are_told_and_its_words_are_its_result() -> None:
    """What a subagent does is on record; its report is its tool's output, not the run's answer."""
    actions = run("subagent")
    calls = events_of(actions, "tool.call")
    outputs = [event.members.get("output", "") for event in events_of(actions, "tool.call_update")]

    assert [call.members["name"] for call in calls] == ["Agent", "Write"]
    assert "well noted" in outputs[-1]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("model_error", "invalid_request_error", "scripted failure 400"),
        ("server_error", "server_error", "scripted failure 500"),
        ("limited", "rate_limit", "scripted limit"),
        ("usage_limit", "rate_limit", "5-hour limit"),
        ("not_logged_in", "authentication_failed", "ANTHROPIC_API_KEY"),
        ("wrong_agent", "not_offered", "terse"),
    ],
)
def test_errors_keep_the_agents_words(name: str, code: str, words: str) -> None:
    """Failures that the CLI calls "success", or passes over, read as what they are."""
    assert error(name)["code"] == code
    assert words in error(name)["message"]


def test_a_usage_limit_says_when_it_ends() -> None:
    """The moment is in the turn's end, in the error's data, and in a notice."""
    [end] = ended(run("usage_limit"))
    notices = [e.members["text"] for e in events_of(run("usage_limit"), "agent.notice")]

    assert error("usage_limit")["data"]["limit"]["resetsAt"] == 1700000000
    assert end.resets == Reset(at_s=1700000000.0)
    assert notices == ["five hour limit: rejected, resets at 2023-11-14T22:13:20+00:00"]
