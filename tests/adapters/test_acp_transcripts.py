"""Recordings of agents that speak ACP: each says and does what it was told, and counts it."""

import json
from typing import Any

import pytest

import agents_replay
from agents_parts import PARTS
from agents_replay import ended, events_of, last_status, replay, text_of
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Ask,
    Prompt,
    SessionKnown,
    Usage,
)

AGENTS = ("claude-agent-acp", "codex-acp", "gemini", "qwen")
DONE, FAILED, CUT = ["completed"], ["failed"], ["cancelled"]
# What is said, how each tool call ends, how each turn ends: where all of them agree, and where not.
ALIKE: dict[str, tuple[str, list[str], list[str]]] = {
    "say": ("hello world", [], ["end_turn"]),
    "write_allowed": ("done", DONE, ["end_turn"]),
    "write_denied": ("done", FAILED, ["end_turn"]),
    "run": ("thought about it", FAILED, ["end_turn"]),
    "cancel_stream": ("one ", [], ["cancelled"]),
    "cancel_question": ("", FAILED, ["cancelled"]),
    "cancel_tool": ("", FAILED, ["cancelled"]),
    "model_error": ("", [], ["error"]),
    "resume": ("well", DONE, ["end_turn"]),
    "two_turns": ("onetwo", [], ["end_turn", "end_turn"]),
    "wrong_session": ("", [], ["error"]),
}
OWN: dict[tuple[str, str], tuple[str, list[str], list[str]]] = {
    ("claude-agent-acp", "model_error"): ("API Error: 400 scripted failure 400", [], ["error"]),
    ("claude-agent-acp", "in_words"): ("heard", DONE, ["end_turn"]),
    ("codex-acp", "in_words"): ("heard", [], ["end_turn"]),
    ("codex-acp", "write_denied"): ("", CUT, ["cancelled"]),
    ("codex-acp", "write_free"): ("done", DONE, ["end_turn"]),
    ("codex-acp", "cancel_question"): ("", CUT, ["cancelled"]),
    ("codex-acp", "cancel_tool"): ("", CUT, ["cancelled"]),
    ("codex-acp", "limit"): ("", [], ["limited"]),
    ("gemini", "cancel_question"): ("", CUT, ["cancelled"]),
    ("gemini", "cancel_tool"): ("", DONE, ["cancelled"]),
    ("gemini", "run"): ("thought about it", DONE, ["end_turn"]),
    ("qwen", "write_denied"): ("", FAILED, ["end_turn"]),
}
ALL = [(part, name) for part in AGENTS for name in agents_replay.names(part)]
recordings = pytest.mark.parametrize(("part", "name"), ALL)


def told(part: str, name: str) -> tuple[dict[str, Any], list[Action]]:
    """A recording, and all actions of its conversation."""
    recording = agents_replay.load(part, name)
    conversation = PARTS[part].agent.converse(agents_replay.request_of(recording))
    return recording, replay(conversation, recording["steps"])


@recordings
def test_a_recording_tells_its_run(part: str, name: str) -> None:
    """What was said, how the tool calls ended, and how the turns did."""
    _, actions = told(part, name)
    ends = [end.stop_reason for end in ended(actions)]

    assert (text_of(actions), last_status(actions), ends) == OWN.get((part, name), ALIKE.get(name))


@recordings
def test_usage_is_what_the_model_reported(part: str, name: str) -> None:
    """A run whose turns ended well counts exactly its own requests, after a resume as well."""
    recording, actions = told(part, name)
    found = [action for action in actions if isinstance(action, Usage) and action.counters]

    if {end.stop_reason for end in ended(actions)} == {"end_turn"}:
        assert found[-1].counters.items() >= recording["usage"].items()
    # What ended otherwise may be counted in part, never beyond.
    for usage in found:
        assert all(usage.counters[name] <= most for name, most in recording["usage"].items())


@pytest.mark.parametrize("part", AGENTS)
def test_what_was_asked_can_be_answered_by_kind(part: str) -> None:
    """An edit is asked about once, with one option to allow it once and one to reject it."""
    _, actions = told(part, "write_allowed")
    [ask] = [action for action in actions if isinstance(action, Ask)]
    kinds = [option.kind for option in ask.options]

    assert ask.tool["kind"] == "edit"
    assert kinds.count("allow_once") == kinds.count("reject_once") == 1


@pytest.mark.parametrize("part", AGENTS)
def test_a_resumed_session_is_the_same_and_silent_about_its_past(part: str) -> None:
    """The session's id is the one asked for; what was said before is not said again."""
    recording, actions = told(part, "resume")
    known = [action.session for action in actions if isinstance(action, SessionKnown)]

    assert known == [recording["session"]]
    assert "first" not in text_of(actions)
    assert events_of(actions, "user.message_chunk") == []


@pytest.mark.parametrize(
    ("part", "name", "words"),
    [
        ("claude-agent-acp", "model_error", "Internal error: API Error: 400 scripted failure 400"),
        ("codex-acp", "model_error", "scripted failure 400"),
        ("codex-acp", "limit", "You’ve hit your usage limit."),
        ("gemini", "model_error", "scripted failure 400"),
        ("qwen", "model_error", "400 scripted failure 400"),
        ("claude-agent-acp", "wrong_session", "Resource not found"),
        ("codex-acp", "wrong_session", "no rollout found for thread id"),
        ("gemini", "wrong_session", "No previous sessions found for this project."),
        ("qwen", "wrong_session", "Resource not found: session:"),
    ],
)
def test_failures_say_what_happened(part: str, name: str, words: str) -> None:
    """The turn's error has the agent's reason, wherever the agent put it."""
    _, actions = told(part, name)
    [over] = ended(actions)

    assert over.error is not None
    assert words in over.error["message"]


def test_the_cost_of_a_resumed_session_is_this_runs() -> None:
    """A cost that counts the session is told from this run on; the whole is kept for the next."""
    recording, actions = told("claude-agent-acp", "resume")
    usage = [action for action in actions if isinstance(action, Usage)][-1]

    assert usage.cost_usd == pytest.approx(0.008835)
    assert usage.session_counters is not None
    before = recording["session_counters"]["cost_usd"]
    assert usage.session_counters["cost_usd"] - before == pytest.approx(usage.cost_usd)


@pytest.mark.parametrize(
    ("part", "model"),
    [
        ("claude-agent-acp", "claude-sonnet-4-5"),
        ("codex-acp", "gpt-5.5"),
        ("gemini", "gemini-2.5-flash"),
    ],
)
def test_the_model_is_told(part: str, model: str) -> None:
    """Who looks up a price knows for which model."""
    _, actions = told(part, "say")

    assert [action for action in actions if isinstance(action, Usage)][-1].model == model


@pytest.mark.parametrize("part", ["claude-agent-acp", "codex-acp", "gemini"])
def test_a_session_is_taken_up_by_its_id_alone(part: str) -> None:
    """A title or a number could mean another session than the one that was asked for."""
    request = AgentRequest("/workspace", "/home/agent", session="the last one")
    conversation = PARTS[part].agent.converse(request)
    conversation.start()
    conversation.intend(Prompt(1, "SAY never"))
    able = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    answer = {"id": 1, "result": {"protocolVersion": 1, "agentCapabilities": able}}
    [over] = ended(conversation.receive(json.dumps(answer).encode() + b"\n"))

    assert over.error is not None
    assert over.error["code"] == "no_session"


@pytest.mark.parametrize(("name", "mode"), [("write_free", "agent-full-access"), ("run", None)])
def test_codex_asks_only_in_the_mode_that_keeps_its_sandbox(name: str, mode: str | None) -> None:
    """A run that allows all has no use for either; the mode is set before the first prompt."""
    recording, _ = told("codex-acp", name)
    asking, _ = told("codex-acp", "write_allowed")

    assert f'"value":"{mode or "agent-full-access"}"' in recording["stdin"]
    assert '"value":"read-only"' in asking["stdin"]
