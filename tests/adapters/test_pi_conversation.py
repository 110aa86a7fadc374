"""The conversation with pi, where a recording has no occasion to go."""

import json
from typing import Any

import pytest

from agents_replay import ended, events_of, stdin_of, text_of
from coachman_adapters import ADAPTERS
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Ask,
    Cancel,
    CloseStdin,
    Conversation,
    Ending,
    Prompt,
    SessionKnown,
    Usage,
    Withdraw,
)

SESSION = "01999999-0000-7000-8000-000000000001"


def request(**members: Any) -> AgentRequest:
    return AgentRequest(cwd="/workspace", home="/home/agent", **members)


def say(conversation: Conversation, *records: dict[str, Any]) -> list[Action]:
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    return [action for line in lines for action in conversation.receive(line)]


def written(actions: list[Action]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdin_of(actions).splitlines()]


def state(session: str = SESSION, level: str = "off") -> dict[str, Any]:
    data = {"sessionId": session, "thinkingLevel": level, "model": {"id": "m", "provider": "p"}}
    return {"type": "response", "id": "c1", "command": "get_state", "success": True, "data": data}


def message(reason: str, *content: dict[str, Any], **members: Any) -> dict[str, Any]:
    told = {"role": "assistant", "content": list(content), "stopReason": reason, **members}
    return {"type": "message_end", "message": told}


def dialog(name: str, method: str = "input", **members: Any) -> dict[str, Any]:
    return {"type": "extension_ui_request", "id": name, "method": method, **members}


def permission(name: str, call: str = "call_1") -> dict[str, Any]:
    asked = {"call": call, "tool": "bash", "input": {"command": "make"}}
    return dialog(name, title="coachman: permission", placeholder=json.dumps(asked))


BEGIN = {"type": "agent_start"}
NEW_MESSAGE = {"type": "message_start", "message": {"role": "assistant", "content": []}}
SETTLED = {"type": "agent_settled", "aborted": False}


def prompted(**members: Any) -> Conversation:
    """A conversation whose first prompt was sent, and taken."""
    conversation = ADAPTERS["pi"].converse(request(**members))
    conversation.start()
    conversation.intend(Prompt(1, "do it"))
    say(conversation, state())
    return conversation


def test_the_prompt_waits_for_the_session() -> None:
    """Nothing is asked of the model before the session is known."""
    conversation = ADAPTERS["pi"].converse(request())
    first = [*conversation.start(), *conversation.intend(Prompt(1, "do it"))]
    then = say(conversation, state())

    assert written(first) == [{"id": "c1", "type": "get_state"}]
    assert written(then) == [{"id": "c2", "type": "prompt", "message": "do it"}]
    assert SessionKnown(SESSION) in then


def test_another_session_is_told_and_never_prompted() -> None:
    """pi takes the first part of an id for a session: that is not the one asked for."""
    conversation = ADAPTERS["pi"].converse(request(session=SESSION[:8]))
    conversation.start()
    conversation.intend(Prompt(1, "do it"))
    actions = say(conversation, state())

    assert SessionKnown(SESSION) in actions
    assert [end.error["code"] for end in ended(actions) if end.error] == ["other_session"]
    assert written(actions) == []
    assert CloseStdin() in actions


@pytest.mark.parametrize("session", ["../x.jsonl", "/etc/passwd", "a.jsonl", "-x", "a b", "é"])
def test_what_is_no_id_opens_nothing(session: str) -> None:
    """A path that pi would open as a session is refused before it is asked anything."""
    asked = request(session=session)
    conversation = ADAPTERS["pi"].converse(asked)
    actions = [*conversation.start(), *conversation.intend(Prompt(1, "do it"))]

    assert "--session" not in ADAPTERS["pi"].plan(asked).argv
    assert [end.error["code"] for end in ended(actions) if end.error] == ["cannot_resume"]
    assert written(actions) == []


def test_an_effort_that_the_model_lacks_is_refused() -> None:
    """pi would take the nearest one without a word; the run ends naming those there are."""
    conversation = ADAPTERS["pi"].converse(request(effort="xhigh"))
    conversation.start()
    conversation.intend(Prompt(1, "do it"))
    asked = say(conversation, state(level="high"))
    levels = {"levels": ["off", "low", "high"]}
    actions = say(conversation, {"type": "response", "id": "c2", "success": True, "data": levels})

    assert [command["type"] for command in written(asked)] == ["get_available_thinking_levels"]
    [end] = ended(actions)
    assert end.error == {
        "message": "cannot set effort to 'xhigh': m takes none, low, high",
        "code": "not_offered",
    }


def test_the_effort_that_was_asked_for_goes_on() -> None:
    """No effort at all is pi's "off"."""
    conversation = ADAPTERS["pi"].converse(request(effort="none"))
    conversation.start()
    conversation.intend(Prompt(1, "do it"))

    assert [command["type"] for command in written(say(conversation, state()))] == ["prompt"]


def test_a_dialog_that_is_not_ours_is_declined() -> None:
    """Another extension's question would wait for ever; what one shows is told."""
    conversation = prompted()
    actions = say(
        conversation,
        dialog("d1", "confirm", title="Really?", message="…"),
        dialog("d2", "notify", message="look here", notifyType="warning"),
        dialog("d3", "setTitle", title="pi"),
    )

    assert written(actions) == [{"type": "extension_ui_response", "id": "d1", "cancelled": True}]
    assert [dict(event.members) for event in events_of(actions, "agent.notice")] == [
        {"text": "a dialog was declined: Really?"},
        {"text": "look here", "severity": "warning"},
    ]


def test_a_denial_carries_its_reason_to_the_model() -> None:
    """What the person says goes back as the reason for which the tool was blocked."""
    conversation = prompted()
    [ask] = [a for a in say(conversation, BEGIN, permission("d1")) if isinstance(a, Ask)]
    [told] = written(conversation.intend(Answer(ask.request, "reject_once", "not today")))

    assert json.loads(told["value"]) == {"kind": "reject_once", "message": "not today"}
    assert told["id"] == "d1"


def test_a_cancel_answers_dialogs_before_it_aborts() -> None:
    """An abort would wait for the dialog; one that opens afterwards is declined at once."""
    conversation = prompted()
    say(conversation, BEGIN, permission("d1"))
    first = written(conversation.intend(Cancel(1)))
    late = written(say(conversation, permission("d2", "call_2")))

    assert [(told["type"], told["id"]) for told in first] == [
        ("extension_ui_response", "d1"),
        ("abort", "c3"),
    ]
    assert late == [{"type": "extension_ui_response", "id": "d2", "cancelled": True}]


def test_a_cancel_before_pi_began_is_said_again() -> None:
    """There was nothing to abort yet."""
    conversation = prompted()
    first = written(conversation.intend(Cancel(1)))
    again = written(say(conversation, BEGIN))

    assert [told["type"] for told in first + again] == ["abort", "abort"]


def test_questions_left_open_at_the_end_are_taken_back() -> None:
    """A turn that ends over a question leaves nobody asked."""
    conversation = prompted()
    say(conversation, BEGIN, permission("d1"))
    actions = say(conversation, message("stop"), SETTLED)

    assert [action.request for action in actions if isinstance(action, Withdraw)] == ["p1"]


def test_a_prompt_that_pi_handles_itself_is_a_turn() -> None:
    """A command of an extension starts no run, so nothing else would end the turn."""
    conversation = prompted()
    taken = {"type": "response", "id": "c2", "success": True, "data": {"disposition": "handled"}}
    actions = say(conversation, taken)

    assert [end.stop_reason for end in ended(actions)] == ["end_turn"]
    assert CloseStdin() in actions


def test_a_prompt_that_is_refused_fails_in_pis_words() -> None:
    """Without a key for the model pi takes no prompt."""
    conversation = prompted()
    refused = {"type": "response", "id": "c2", "success": False, "error": "No API key found"}
    [end] = ended(say(conversation, refused))

    assert end.error == {"message": "No API key found"}


def test_only_its_own_run_ends_a_turn() -> None:
    """The end of something that an extension had going is not the prompt's."""
    conversation = prompted(keep=True)

    assert ended(say(conversation, message("stop"), SETTLED)) == []
    assert len(ended(say(conversation, BEGIN, message("stop"), SETTLED))) == 1


@pytest.mark.parametrize(
    ("reason", "ends"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("toolUse", "end_turn"),
        ("error", "error"),
        ("aborted", "cancelled"),
        ("unheard_of", "end_turn"),
    ],
)
def test_stop_reasons_are_pis(reason: str, ends: str) -> None:
    """Each of pi's reasons has one of ours; a new one is told as a notice."""
    conversation = prompted()
    actions = say(conversation, BEGIN, message(reason), SETTLED)

    assert [end.stop_reason for end in ended(actions)] == [ends]
    assert bool(events_of(actions, "agent.notice")) == (reason == "unheard_of")


def test_a_turn_without_an_answer_is_no_success() -> None:
    """pi settled, and the model said nothing at all."""
    [end] = ended(say(prompted(), BEGIN, SETTLED))

    assert end.error is not None
    assert end.error["code"] == "no_stop_reason"


def test_numbers_beyond_all_reason_count_nothing() -> None:
    """An amount or a delay that no float holds is left out, and breaks nothing."""
    spent = {"input": 10, "output": 2, "cost": {"total": 10**400}}
    actions = say(
        prompted(), {"type": "auto_retry_start", "delayMs": 10**400}, message("stop", usage=spent)
    )

    [usage] = [action for action in actions if isinstance(action, Usage)]
    [retry] = events_of(actions, "agent.status")
    assert (usage.counters["total"], usage.cost_usd) == (12, None)
    assert retry.members["label"] == "trying again: no reason given"


def test_a_message_that_was_not_streamed_is_told_whole() -> None:
    """What the end of a message has beyond its pieces is told, and nothing of it twice."""
    conversation = prompted()
    piece = {"type": "text_delta", "contentIndex": 0, "delta": "one "}
    actions = say(
        conversation,
        BEGIN,
        NEW_MESSAGE,
        {"type": "message_update", "assistantMessageEvent": piece},
        message("stop", {"type": "text", "text": "one two"}, {"type": "text", "text": " three"}),
    )

    assert text_of(actions) == "one two three"
    assert {event.members["message_id"] for event in events_of(actions)} == {"m1"}


def test_an_agent_that_never_answers_fails() -> None:
    """The session's timer ends the wait."""
    conversation = ADAPTERS["pi"].converse(request())
    conversation.start()
    conversation.intend(Prompt(1, "do it"))
    [end] = ended(conversation.expire("session"))

    assert end.error is not None
    assert end.error["code"] == "agent_silent"


def test_a_bounded_run_takes_one_prompt() -> None:
    """After its turn stdin is closed, and another prompt ends at once."""
    conversation = prompted()
    actions = say(conversation, BEGIN, message("stop"), SETTLED)
    [late] = ended(conversation.intend(Prompt(2, "more")))

    assert CloseStdin() in actions
    assert late.error == {"message": "the run takes no more prompts", "code": "closed"}


def test_a_prompt_that_was_never_sent_can_be_cancelled() -> None:
    """pi never heard of it, so there is nothing to confirm."""
    conversation = ADAPTERS["pi"].converse(request())
    conversation.start()
    conversation.intend(Prompt(1, "do it"))
    actions = conversation.intend(Cancel(1))

    assert [end.stop_reason for end in ended(actions)] == ["cancelled"]
    assert ended(conversation.finish(Ending(0, None))) == []


def test_what_the_run_asks_for_is_on_the_command_line() -> None:
    """Model, provider, effort and session; our extension is where guests' code is bound."""
    asked = request(model="m", provider="p", effort="none", session=SESSION)

    assert ADAPTERS["pi"].plan(asked).argv == (
        "{executable}", "--mode", "rpc", "--extension", "/run/coachman/pi_permissions.js",
        "--provider", "p", "--model", "m", "--thinking", "off", "--session", SESSION,
    )  # fmt: skip
