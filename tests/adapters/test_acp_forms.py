"""Forms by which agents ask over ACP: each becomes one question, whose answer fills the form in."""

import json
from typing import Any

import pytest

import agents_replay
from agents_parts import PARTS
from agents_peer import Peer, prompted, request
from coachman_adapters.acp import forms
from coachman_adapters.conversation import Answer, Ask, TurnEnded

CHOICE = {"type": "string", "title": "Door", "oneOf": [{"const": "l", "title": "Left"}]}
MANY = {"type": "array", "items": {"enum": ["a"]}}
TEXT = {"type": "string", "title": "Other"}


def form(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return {"mode": "form", "message": "Which door?", "requestedSchema": schema}


def offered(params: dict[str, Any]) -> list[str]:
    fields = forms.read(params)
    return [option.id for option in forms.options(fields)] if fields else []


def filled(params: dict[str, Any], option: str | None, message: str | None = None) -> Any:
    fields = forms.read(params)
    assert fields is not None
    return forms.result(fields, option, message).get("content")


def test_a_choice_and_words_beside_it_fill_their_fields() -> None:
    """One option each, and one for words of one's own; what is left out stays out."""
    params = form(door=CHOICE, more=TEXT)

    assert forms.text(params) == "Which door?"
    assert offered(params) == ["choice_1", "write_in", "decline"]
    assert filled(params, "choice_1") == {"door": "l"}
    assert filled(params, "write_in", "the third") == {"more": "the third"}


def test_words_go_with_the_choice_that_is_there_for_them() -> None:
    """Where one has to be chosen, words of one's own need the choice that stands for others."""
    other = {"type": "string", "enum": ["Left", "None of the above"], "description": "Which?"}
    params = form(("door",), door=other, note=TEXT)

    assert filled(params, "write_in", "x") == {"door": "None of the above", "note": "x"}
    assert offered(form(("door",), door=CHOICE, note=TEXT)) == ["choice_1", "decline"]


def test_several_questions_get_the_same_words() -> None:
    """No choice is offered then, since it would be one question's alone."""
    params = form(one=CHOICE, one_more=TEXT, two=CHOICE, two_more=TEXT)

    assert offered(params) == ["write_in", "decline"]
    assert filled(params, "write_in", "x") == {"one_more": "x", "two_more": "x"}


@pytest.mark.parametrize(
    "params",
    [
        form(),
        form(many=MANY),
        form(("many",), many=MANY, more=TEXT),
        form(("yes",), yes={"type": "boolean"}, more=TEXT),
        {**form(more=TEXT), "mode": "url"},
        {"mode": "form", "requestedSchema": {"properties": {"a": None}}},
        {"mode": "form", "requestedSchema": []},
    ],
)
def test_what_one_answer_cannot_fill_in_is_no_question(params: dict[str, Any]) -> None:
    """Such a form is cancelled at once, and nobody is asked."""
    assert forms.read(params) is None


def test_nobodys_answer_cancels_and_a_denial_declines() -> None:
    """The agent can tell one from the other."""
    fields = forms.read(form(more=TEXT))
    assert fields is not None

    assert forms.result(fields, None, None) == {"action": "cancel"}
    assert forms.result(fields, "write_in", None) == {"action": "cancel"}
    assert forms.result(fields, "decline", None) == {"action": "decline"}


ELICIT = "elicitation/create"
WORDS = request(permissions="ask", words=True)
CHOSEN = {"sessionId": "s1", **form(door=CHOICE, more=TEXT)}


def test_forms_are_wanted_only_where_somebody_is_there() -> None:
    """What is said first is as it always was in all other runs, which an upgrade replays."""
    capabilities = [Peer(asked).sent[0]["params"]["clientCapabilities"] for asked in (None, WORDS)]

    assert [each.get("elicitation") for each in capabilities] == [None, {"form": {}}]


def test_a_form_is_asked_once_and_answered_in_its_own_terms() -> None:
    """The answer goes to the agent's own id; a late one finds no question."""
    peer = prompted(WORDS)
    [ask] = peer.say({"id": "f1", "method": ELICIT, "params": CHOSEN})
    assert isinstance(ask, Ask)
    peer.keep(peer.conversation.intend(Answer(ask.request, "write_in", "the third")))
    told = len(peer.sent)
    peer.answer(ask.request, "choice_1")

    assert ask.question == "Which door?"
    assert peer.last["id"] == "f1"
    assert peer.last["result"] == {"action": "accept", "content": {"more": "the third"}}
    assert len(peer.sent) == told


def test_a_form_that_is_open_when_the_turn_is_cancelled_is_cancelled() -> None:
    """In the form's own words, and so is one that no single answer fills in."""
    peer = prompted(WORDS)
    peer.say({"id": 7, "method": ELICIT, "params": CHOSEN})
    peer.cancel()
    cancelled = [frame for frame in peer.sent if frame.get("id") == 7]
    peer.say({"id": 8, "method": ELICIT, "params": {"sessionId": "s1", **form(many=MANY)}})

    assert [frame["result"] for frame in cancelled] == [{"action": "cancel"}]
    assert peer.last == {"jsonrpc": "2.0", "id": 8, "result": {"action": "cancel"}}


def test_a_restored_conversation_still_knows_the_form() -> None:
    """A checkpoint between question and answer loses nothing of it."""
    peer = prompted(WORDS)
    [ask] = peer.say({"id": 7, "method": ELICIT, "params": CHOSEN})
    assert isinstance(ask, Ask)
    later = Peer(WORDS)
    later.conversation.restore(json.loads(json.dumps(peer.conversation.snapshot())))
    later.answer(ask.request, "choice_1")

    assert later.last["result"] == {"action": "accept", "content": {"door": "l"}}


@pytest.mark.parametrize("part", ["claude-agent-acp", "codex-acp", "codex-app-server"])
def test_real_agents_hear_what_was_written_in(part: str) -> None:
    """As they were recorded: one question, with each choice and words of one's own to answer."""
    told = agents_replay.load(part, "in_words")
    conversation = PARTS[part].agent.converse(agents_replay.request_of(told))
    actions = agents_replay.replay(conversation, told["steps"])
    [ask] = [action for action in actions if isinstance(action, Ask)]

    assert "Which one?" in ask.question
    assert {"choice_1", "choice_2", "write_in", "decline"} <= {each.id for each in ask.options}
    assert [end.stop_reason for end in actions if isinstance(end, TurnEnded)] == ["end_turn"]
