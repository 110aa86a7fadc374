"""What the app server asks, which options each question has, and how each answer reads."""

import json
from typing import Any

import pytest

from agents_replay import ended
from coachman_adapters.codex import CODEX
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Ask,
    Cancel,
    Conversation,
    Event,
    Prompt,
    Withdraw,
    Write,
)

THREAD, TURN = "01a22b10-cb6a-7ab3-9f39-cb1626cd59b1", "01a22b10-cb6a-7ab3-9f39-0000000000a1"
RULE = {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["ls", "-l"]}}
DENY = {
    "applyNetworkPolicyAmendment": {"network_policy_amendment": {"action": "deny", "host": "h"}}
}
COMMAND: dict[str, Any] = {
    "itemId": "call_1",
    "command": "/bin/bash -lc 'ls -l'",
    "reason": "to see",
    "availableDecisions": ["accept", RULE, DENY, "cancel"],
}
MCP: dict[str, Any] = {
    "serverName": "tracker",
    "mode": "form",
    "_meta": {
        "codex_approval_kind": "mcp_tool_call",
        "persist": ["session", "always"],
        "tool_name": "close",
        "tool_params": {"ticket": 7},
    },
    "message": "Allow?",
    "requestedSchema": {"type": "object", "properties": {}},
}
WANTED = {"network": {"enabled": True}}


def tell(conversation: Conversation, *frames: dict[str, Any]) -> list[Action]:
    return conversation.receive(b"".join(json.dumps(each).encode() + b"\n" for each in frames))


def ready(*, words: bool = False) -> Conversation:
    """A conversation whose prompt codex works at."""
    request = AgentRequest("/workspace", "/home/agent", permissions="ask", words=words)
    conversation = CODEX.converse(request)
    conversation.start()
    conversation.intend(Prompt(1, "do"))
    tell(
        conversation,
        {"id": 1, "result": {}},
        {"id": 2, "result": {"thread": {"id": THREAD}}},
        {"id": 3, "result": {"turn": {"id": TURN}}},
        {"method": "turn/started", "params": {"threadId": THREAD, "turn": {"id": TURN}}},
    )
    return conversation


def ask(conversation: Conversation, method: str, params: dict[str, Any]) -> Ask:
    frame = {"id": 0, "method": method, "params": {"threadId": THREAD, "turnId": TURN, **params}}
    [asked] = [action for action in tell(conversation, frame) if isinstance(action, Ask)]
    return asked


def result_of(actions: list[Action]) -> Any:
    [write] = [action for action in actions if isinstance(action, Write)]
    message = json.loads(write.data)
    assert message["id"] == 0
    return message["result"]


def answered(method: str, params: dict[str, Any], kind: str | None) -> Any:
    """The result of answering with the option of ``kind``, or with none."""
    conversation = ready()
    asked = ask(conversation, method, params)
    chosen = next((option.id for option in asked.options if option.kind == kind), None)
    assert (chosen is None) == (kind is None)
    return result_of(conversation.intend(Answer(asked.request, chosen)))


APPROVE = "item/commandExecution/requestApproval"
PERMIT = "item/permissions/requestApproval"
ELICIT = "mcpServer/elicitation/request"


@pytest.mark.parametrize(
    ("method", "params", "kind", "expected"),
    [
        (APPROVE, COMMAND, "allow_once", {"decision": "accept"}),
        (APPROVE, COMMAND, "allow_always", {"decision": RULE}),
        (APPROVE, COMMAND, "reject_once", {"decision": "decline"}),
        (APPROVE, COMMAND, "reject_always", {"decision": DENY}),
        (APPROVE, COMMAND, None, {"decision": "cancel"}),
        (APPROVE, {"itemId": "c"}, "allow_always", {"decision": "acceptForSession"}),
        ("item/fileChange/requestApproval", {"itemId": "c"}, "allow_once", {"decision": "accept"}),
        (PERMIT, {"permissions": WANTED}, "allow_once", {"permissions": WANTED, "scope": "turn"}),
        (
            PERMIT,
            {"permissions": WANTED},
            "allow_always",
            {"permissions": WANTED, "scope": "session"},
        ),
        (PERMIT, {"permissions": WANTED}, "reject_once", {"permissions": {}, "scope": "turn"}),
        (ELICIT, MCP, "allow_once", {"action": "accept", "content": {}}),
        (
            ELICIT,
            MCP,
            "allow_always",
            {"action": "accept", "content": {}, "_meta": {"persist": "session"}},
        ),
        (ELICIT, MCP, "reject_once", {"action": "decline"}),
        (ELICIT, MCP, None, {"action": "cancel"}),
    ],
)
def test_an_answer_has_the_form_that_its_question_takes(
    method: str, params: dict[str, Any], kind: str | None, expected: Any
) -> None:
    """Options are chosen by kind; no choice is the question's own form of "cancelled"."""
    assert answered(method, params, kind) == expected


def test_a_command_says_what_it_is_and_why() -> None:
    """The question holds the command without its shell, the tool the model's reason."""
    asked = ask(ready(), APPROVE, COMMAND)

    assert asked.question == "Run ls -l?"
    assert asked.tool["input"] == {"command": "ls -l", "reason": "to see"}
    names = [option.name for option in asked.options]
    assert names == ["Allow", "Always allow: ls -l", "Always deny: h", "Reject"]


def test_a_tool_of_a_server_is_asked_as_its_call() -> None:
    """The request does not name the call; it is the one of that tool that waits."""
    conversation = ready()
    call = {"type": "mcpToolCall", "id": "call_9", "server": "tracker", "tool": "close"}
    started = {**call, "status": "inProgress", "arguments": {"ticket": 7}}
    tell(conversation, {"method": "item/started", "params": {"threadId": THREAD, "item": started}})
    asked = ask(conversation, ELICIT, MCP)

    assert asked.question == "Allow tracker.close?"
    assert (asked.tool["tool_call_id"], asked.tool["input"]) == ("call_9", {"ticket": 7})


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (ELICIT, {"serverName": "m", "mode": "form", "message": "Your name?"}),
        ("item/tool/requestUserInput", {"questions": []}),
        ("account/chatgptAuthTokens/refresh", {}),
        ("item/tool/call", {"tool": "x"}),
        ("moon/rise", {}),
    ],
)
def test_what_nobody_can_answer_is_refused_at_once(method: str, params: dict[str, Any]) -> None:
    """codex must not wait for what no permission decides."""
    [write] = tell(ready(), {"id": 5, "method": method, "params": params})

    assert isinstance(write, Write)
    error = json.loads(write.data)
    assert error == {
        "id": 5,
        "error": {"code": -32601, "message": f"nobody answers {method}"},
    }


def test_an_allowed_command_runs_from_then_on() -> None:
    """It waits until it is allowed, and is told as running after that."""
    conversation = ready()
    waiting = {"type": "commandExecution", "id": "call_1", "command": "ls", "processId": None}
    item = {**waiting, "status": "inProgress"}
    [told] = tell(
        conversation, {"method": "item/started", "params": {"threadId": THREAD, "item": item}}
    )
    asked = ask(conversation, APPROVE, COMMAND)
    actions = conversation.intend(Answer(asked.request, "accept"))

    assert isinstance(told, Event)
    assert told.members["status"] == "pending"
    [running] = [action for action in actions if isinstance(action, Event)]
    assert running.members == {"tool_call_id": "call_1", "status": "in_progress"}


def test_a_question_that_codex_takes_back_is_withdrawn() -> None:
    """A late answer to it is told to nobody."""
    conversation = ready()
    asked = ask(conversation, APPROVE, COMMAND)
    resolved = {"method": "serverRequest/resolved", "params": {"threadId": THREAD, "requestId": 0}}

    assert tell(conversation, resolved) == [Withdraw(asked.request)]
    assert conversation.intend(Answer(asked.request, "accept")) == []


def test_a_cancel_answers_and_interrupts() -> None:
    """What is asked after it is refused at once."""
    conversation = ready()
    ask(conversation, APPROVE, COMMAND)
    written = [json.loads(a.data) for a in conversation.intend(Cancel()) if isinstance(a, Write)]
    frame = {"id": 0, "method": APPROVE, "params": COMMAND}
    late = tell(conversation, frame)

    assert written[0] == {"id": 0, "result": {"decision": "cancel"}}
    assert written[1]["method"] == "turn/interrupt"
    assert result_of(late) == {"decision": "cancel"}
    assert ended(late) == []


def test_a_turns_end_settles_its_questions() -> None:
    """Nobody needs to answer them any more."""
    conversation = ready()
    asked = ask(conversation, APPROVE, COMMAND)
    turn = {"id": TURN, "status": "completed"}
    over = {"method": "turn/completed", "params": {"threadId": THREAD, "turn": turn}}

    assert Withdraw(asked.request) in tell(conversation, over)


WORDS = "item/tool/requestUserInput"
DOOR = {"id": "door", "header": "Door", "question": "Which door?"}
ASKED: dict[str, Any] = {
    "itemId": "c",
    "questions": [{**DOOR, "options": [{"label": "Left", "description": "l"}]}],
}


@pytest.mark.parametrize(
    ("option", "message", "expected"),
    [
        ("choice_1", None, {"door": {"answers": ["Left"]}}),
        ("write_in", "the third", {"door": {"answers": ["the third"]}}),
        ("decline", None, {"door": {"answers": []}}),
        (None, None, {}),
    ],
)
def test_what_is_asked_in_words_is_answered_in_words(
    option: str | None, message: str | None, expected: dict[str, Any]
) -> None:
    """A choice by its label, or somebody's own words; codex tells no end of such a call."""
    conversation = ready(words=True)
    asked = ask(conversation, WORDS, ASKED)
    actions = conversation.intend(Answer(asked.request, option, message))
    ends = [action.members["status"] for action in actions if isinstance(action, Event)]

    assert asked.question == "Which door?"
    assert [each.id for each in asked.options] == ["choice_1", "write_in", "decline"]
    assert result_of(actions) == {"answers": expected}
    assert ends == (["completed"] if option and option != "decline" else [])


def test_words_are_refused_where_nobody_is_there() -> None:
    """As they were before: codex does not wait for an answer that cannot come."""
    params = {"threadId": THREAD, "turnId": TURN, **ASKED}
    [write] = tell(ready(), {"id": 0, "method": WORDS, "params": params})
    assert isinstance(write, Write)

    assert json.loads(write.data)["error"]["code"] == -32601
