"""The ACP conversation and an agent of the official SDK, which checks every message it gets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sourcetree
from agents_driver import Drive, choose, is_ask, is_event
from agents_replay import ended, events_of, text_of
from coachman_adapters import events
from coachman_adapters.acp.conversation import AcpConversation
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import AgentRequest, Ask, SessionKnown, TurnEnded

AGENT = sourcetree.ROOT / "tests/support/sdk_agent.mjs"
SDK = "@agentclientprotocol/sdk/dist/v1/stable/acp.js"
Obey = Callable[..., Drive]


@pytest.fixture
def obey(node_tools: Path, tmp_path: Path, tool: Callable[[str], str]) -> Obey:
    """Drives the agent through one prompt a turn: ``obey(PROMPT…, decide=…)``."""
    work = tmp_path / "work"
    work.mkdir()

    def drive(*prompts: str, **options: Any) -> Drive:
        request = AgentRequest(cwd=str(work), home=str(tmp_path), keep=len(prompts) > 1)
        made = Drive(
            AcpConversation(request, Quirks()),
            [tool("node"), str(AGENT), str(node_tools / SDK)],
            cwd=work,
            env={"HOME": str(tmp_path)},
            **options,
        )
        made.run(prompts)
        return made

    return drive


def test_an_allowed_write_is_told_asked_and_done(obey: Obey, tmp_path: Path) -> None:
    """Thought, plan, tool call with its diff, question, answer, message and end all arrive."""
    ran = obey("write", decide=choose("allow_once"))
    [asked] = [action for action in ran.actions if isinstance(action, Ask)]
    [known] = [action for action in ran.actions if isinstance(action, SessionKnown)]
    [call] = events_of(ran.actions, events.TOOL_CALL)

    assert (tmp_path / "work/notes.md").read_text() == "hello\n"
    assert ended(ran.actions) == [TurnEnded("end_turn")]
    assert text_of(ran.actions) == "written"
    assert [option.kind for option in asked.options] == ["allow_once", "reject_once"]
    assert asked.tool["title"] == "Write notes.md"
    assert known.agent_version == "1.0.0"
    assert call.members["content"][0]["newText"] == "hello\n"
    assert events_of(ran.actions, events.PLAN)
    assert events_of(ran.actions, events.THOUGHT_CHUNK)
    assert events_of(ran.actions, events.UNKNOWN) == []
    assert events_of(ran.actions, events.NOISE) == []


def test_a_denied_write_is_left_alone(obey: Obey, tmp_path: Path) -> None:
    """The refusal is the option that the agent offered for it."""
    ran = obey("write", decide=choose("reject_once"))

    assert text_of(ran.actions) == "left alone"
    assert not (tmp_path / "work/notes.md").exists()


def test_a_cancel_reaches_the_agent(obey: Obey) -> None:
    """session/cancel ends a turn that would go on for ever, as cancelled."""
    ran = obey("stall", cancel_when=is_event(events.MESSAGE_CHUNK, text="waiting"))

    assert ended(ran.actions) == [TurnEnded("cancelled")]


def test_a_cancel_withdraws_an_open_question(obey: Obey, tmp_path: Path) -> None:
    """The question is answered as cancelled, and the agent says so of its turn."""
    ran = obey("write", cancel_when=is_ask)

    assert ended(ran.actions) == [TurnEnded("cancelled")]
    assert not (tmp_path / "work/notes.md").exists()


def test_what_is_not_offered_is_refused_as_the_sdk_expects(obey: Obey) -> None:
    """A request for files gets "method not found", which the agent survives."""
    ran = obey("files")

    assert text_of(ran.actions) == "refused -32601"
    assert ended(ran.actions) == [TurnEnded("end_turn")]


def test_an_error_of_the_agent_is_passed_on(obey: Obey) -> None:
    """The turn ends as an error with the agent's code, message and data."""
    [end] = ended(obey("fail").actions)

    assert end.stop_reason == "error"
    assert end.error == {"code": -32603, "message": "the model is gone", "data": {"status": 503}}


def test_two_prompts_are_two_turns_of_one_session(obey: Obey, tmp_path: Path) -> None:
    """A kept conversation prompts again once the turn is over."""
    ran = obey("files", "write", decide=choose("allow_once"))

    assert ended(ran.actions) == [TurnEnded("end_turn"), TurnEnded("end_turn")]
    assert (tmp_path / "work/notes.md").exists()
