"""Whatever an agent makes long, nothing told is longer than a journal's line."""

import json
from typing import Any

import pytest
from attrs import asdict

from agents_peer import OPTIONS, SESSION, Peer, prompted, request
from agents_replay import ended
from coachman_adapters.conversation import Action, Ask, Write

LONG = "x" * 3_000_000
MANY = [LONG[:1000]] * 3000
EVENT_BYTES = 256 * 1024


def sizes(actions: list[Action]) -> list[int]:
    return [len(json.dumps(asdict(a))) for a in actions if not isinstance(a, Write)]


UPDATES = [
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": LONG}},
    {
        "sessionUpdate": "agent_message_chunk",
        "messageId": LONG,
        "content": {"type": "text", "text": LONG},
    },
    {"sessionUpdate": "tool_call", "toolCallId": LONG, "title": "x"},
    {"sessionUpdate": "tool_call", "toolCallId": "t", "title": LONG, "kind": LONG, "name": LONG},
    {"sessionUpdate": "plan", "entries": MANY},
    {"sessionUpdate": "available_commands_update", "availableCommands": MANY},
    {"sessionUpdate": "notice", "title": LONG, "description": LONG, "severity": LONG},
    {"sessionUpdate": "current_mode_update", "currentModeId": LONG},
    {"sessionUpdate": "compaction_update", "status": LONG},
    {
        "sessionUpdate": "config_option_update",
        "configOptions": [{"id": LONG, "type": "select", "currentValue": LONG}],
    },
    {"sessionUpdate": LONG, LONG: MANY},
]


@pytest.mark.parametrize("update", UPDATES, ids=range(len(UPDATES)))
def test_long_updates_fit(update: dict[str, Any]) -> None:
    """Every variant with huge members becomes events of a bounded size."""
    peer = prompted()

    told = sizes(
        peer.say({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})
    )

    assert told
    assert max(told) < EVENT_BYTES


def test_a_question_about_a_huge_tool_call_fits() -> None:
    """A short question does not bring back the length of what was told before."""
    peer = prompted()
    peer.update("tool_call", toolCallId="t", title=LONG, kind="edit", rawInput={"a": LONG})
    options = [option | {"name": LONG[:3000]} for option in OPTIONS] * 500

    actions = peer.ask(tool={"toolCallId": "t"}, options=[{"optionId": LONG}, *options])

    assert max(sizes(actions)) < EVENT_BYTES
    [ask] = [action for action in actions if isinstance(action, Ask)]
    assert ask.options[0].id == "once"


def test_a_huge_error_fits_and_keeps_its_code() -> None:
    """An error with a huge message and data still says what matters."""
    actions = prompted().error(-32603, "no " + LONG, data={"a": MANY})

    assert max(sizes(actions)) < EVENT_BYTES
    [over] = ended(actions)
    assert over.error["code"] == -32603
    assert over.error["message"].startswith("no xxx")


def test_a_huge_session_id_is_refused() -> None:
    """A session that cannot be named in a journal cannot be had."""
    peer = Peer()
    peer.prompt()
    peer.initialized()

    [over] = ended(peer.result({"sessionId": LONG}))

    assert over.error["code"] == "no_session"


def test_huge_introductions_fit() -> None:
    """Versions, logins and hints are cut before they are remembered."""
    peer = Peer(request(session="s1"))
    peer.prompt()
    peer.say({"id": None, "error": {"code": 1, "message": LONG}})
    peer.result(
        {
            "protocolVersion": 1,
            "agentInfo": {"version": LONG},
            "agentCapabilities": {"loadSession": True},
            "authMethods": [{"id": LONG[:30_000]}] * 100,
        }
    )

    assert max(sizes(peer.error(-32000, LONG))) < EVENT_BYTES
    assert len(json.dumps(peer.conversation.snapshot())) < EVENT_BYTES
