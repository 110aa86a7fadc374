"""The app server, frame by frame: the handshake, turns, and what it tells of its own accord."""

import json
from typing import Any

import pytest

from agents_replay import ended, events_of, stdin_of
from coachman_adapters.codex import CODEX
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Cancel,
    CloseStdin,
    Conversation,
    Ending,
    Prompt,
    SessionKnown,
    Usage,
)

THREAD = "01a22b10-cb6a-7ab3-9f39-cb1626cd59b1"
OTHER = "01a22b10-cb6a-7ab3-9f39-cb1626cd59b2"
TURN = "01a22b10-cb6a-7ab3-9f39-0000000000a1"
INITIALIZED = {"id": 1, "result": {"userAgent": "coachman/1.2.3 (x)"}}
OPENED = {
    "id": 2,
    "result": {"thread": {"id": THREAD}, "model": "gpt-5.5", "modelProvider": "openai"},
}
ACCEPTED = {"id": 3, "result": {"turn": {"id": TURN, "status": "inProgress"}}}


def tell(conversation: Conversation, *frames: dict[str, Any]) -> list[Action]:
    return conversation.receive(b"".join(json.dumps(each).encode() + b"\n" for each in frames))


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {"threadId": THREAD, **params}}


def over(status: str, turn: str = TURN, **members: Any) -> dict[str, Any]:
    return note("turn/completed", turn={"id": turn, "status": status, **members})


def said(actions: list[Action]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stdin_of(actions).splitlines()]


def begun(**members: Any) -> Conversation:
    """A conversation that was greeted, and has its prompt."""
    kept = {"keep": True, "permissions": "ask", **members}
    conversation = CODEX.converse(AgentRequest(cwd="/workspace", home="/home/agent", **kept))
    conversation.start()
    conversation.intend(Prompt(1, "do"))
    return conversation


def ready(**members: Any) -> Conversation:
    """A conversation whose prompt codex works at."""
    conversation = begun(**members)
    tell(conversation, INITIALIZED, OPENED, ACCEPTED, note("turn/started", turn={"id": TURN}))
    return conversation


def test_the_thread_is_opened_to_ask_for_everything() -> None:
    """Only `untrusted` does, and codex's own sandbox stays off."""
    conversation = begun(model="gpt-5.5", provider="azure", effort="high")
    [greeted, opened] = said(tell(conversation, INITIALIZED))
    [prompted] = said(tell(conversation, OPENED))

    assert greeted == {"method": "initialized"}
    params = opened["params"]
    assert (opened["method"], params["approvalPolicy"]) == ("thread/start", "untrusted")
    assert (params["sandbox"], params["approvalsReviewer"]) == ("danger-full-access", "user")
    assert (params["model"], params["modelProvider"]) == ("gpt-5.5", "azure")
    assert prompted["params"]["effort"] == "high"


@pytest.mark.parametrize(
    ("frames", "code", "words"),
    [
        ([{"id": 1, "error": {"code": -32600, "message": "no"}}], -32600, "no"),
        ([INITIALIZED, {"id": 2, "result": {}}], "no_session", "did not name it"),
        ([INITIALIZED, {"id": 2, "error": {"code": 5}}], 5, "cannot open a session"),
    ],
)
def test_without_a_thread_every_prompt_fails(
    frames: list[dict[str, Any]], code: Any, words: str
) -> None:
    """The error says why, codex is let go, and a later prompt gets the same error."""
    conversation = begun()
    actions = tell(conversation, *frames)
    later = conversation.intend(Prompt(2, "more"))

    for end in (*ended(actions), *ended(later)):
        assert end.error is not None
        assert end.error["code"] == code
        assert words in end.error["message"]
    assert len(ended(actions)) == len(ended(later)) == 1
    assert isinstance(actions[-1], CloseStdin)


def test_another_thread_than_the_one_asked_for_fails() -> None:
    """The other one is told, the prompt never sent."""
    conversation = begun(session=OTHER)
    actions = tell(conversation, INITIALIZED, OPENED)

    assert SessionKnown(THREAD, "1.2.3") in actions
    assert [end.error and end.error["code"] for end in ended(actions)] == ["other_session"]
    assert [frame["method"] for frame in said(actions)] == ["initialized", "thread/resume"]


def test_a_silent_codex_fails_in_time() -> None:
    """What it was to answer is named; once the thread is there, the timer means nothing."""
    [end] = ended(begun().expire("handshake"))

    assert end.error is not None
    assert (end.error["code"], "initialize" in end.error["message"]) == ("agent_silent", True)
    assert ready().expire("handshake") == []


def test_a_second_prompt_waits_for_the_first_turn() -> None:
    """codex would add it to the running turn, whose end would then be that of both."""
    conversation = ready()
    queued = conversation.intend(Prompt(2, "more"))
    [prompted] = said(tell(conversation, over("completed")))

    assert queued == []
    assert prompted["method"] == "turn/start"
    assert prompted["params"]["input"] == [{"type": "text", "text": "more"}]


def test_a_bounded_run_ends_with_its_turn() -> None:
    """stdin is closed, and there is no second turn."""
    conversation = ready(keep=False)
    actions = tell(conversation, over("completed"))

    assert isinstance(actions[-1], CloseStdin)
    late = ended(conversation.intend(Prompt(2, "more")))
    assert [end.error and end.error["code"] for end in late] == ["closed"]


def test_a_turn_that_is_refused_fails() -> None:
    """The answer to the prompt may be an error; the next prompt is sent all the same."""
    conversation = begun()
    conversation.intend(Prompt(2, "more"))
    tell(conversation, INITIALIZED, OPENED)
    actions = tell(conversation, {"id": 3, "error": {"code": -32600, "message": "not now"}})

    assert [end.error and end.error["message"] for end in ended(actions)] == ["not now"]
    assert [frame["method"] for frame in said(actions)] == ["turn/start"]


def test_the_end_of_another_turn_ends_nothing() -> None:
    """Only the turn of our own prompt counts, in our own thread."""
    conversation = ready()
    foreign = {"method": "turn/completed", "params": {"threadId": OTHER, "turn": {"id": TURN}}}

    assert tell(conversation, over("completed", turn=OTHER), foreign) == []


def test_a_cancel_waits_until_codex_has_begun() -> None:
    """An interrupt of a turn that does not run yet would be refused."""
    conversation = begun()
    tell(conversation, INITIALIZED, OPENED)
    early = conversation.intend(Cancel()) + tell(conversation, ACCEPTED)
    [interrupt] = said(tell(conversation, note("turn/started", turn={"id": TURN})))

    assert early == []
    assert interrupt["method"] == "turn/interrupt"
    assert interrupt["params"] == {"threadId": THREAD, "turnId": TURN}


def test_a_cancel_before_there_is_a_thread_keeps_the_prompt_from_codex() -> None:
    """It never heard of the turn, so there is nothing to confirm."""
    conversation = begun()
    cancelled = conversation.intend(Cancel())
    opening = said(tell(conversation, INITIALIZED, OPENED))

    assert [end.stop_reason for end in ended(cancelled)] == ["cancelled"]
    assert [frame["method"] for frame in opening] == ["initialized", "thread/start"]


def test_what_an_interrupted_turn_left_running_is_ended_in_time() -> None:
    """Where codex does not answer to that, the turn is over after a moment."""
    conversation = ready()
    conversation.intend(Cancel())
    actions = tell(conversation, over("interrupted"))
    late = conversation.expire("clean")

    assert said(actions)[-1]["method"] == "thread/backgroundTerminals/clean"
    assert ended(actions) == []
    assert [end.stop_reason for end in ended(late)] == ["cancelled"]
    assert conversation.expire("clean") == []


def test_a_cancelled_turn_that_dies_is_cancelled() -> None:
    """codex had confirmed it before it died."""
    conversation = ready()
    conversation.intend(Cancel())
    tell(conversation, over("interrupted"))

    assert [end.stop_reason for end in ended(conversation.finish(Ending(None, 9)))] == ["cancelled"]


def test_a_failed_turn_keeps_codexs_words() -> None:
    """A limit says when it ends; the kind of the error is its code."""
    message = "You've hit your usage limit. Try again at 6:19 AM."
    error = {"message": message, "codexErrorInfo": "usageLimitExceeded", "additionalDetails": "d"}
    [end] = ended(tell(ready(), over("failed", error=error)))

    expected = {"message": message, "code": "usageLimitExceeded", "data": {"details": "d"}}
    assert end.error == expected


def usage(turn: str, total: int) -> dict[str, Any]:
    counted = {"inputTokens": total, "cachedInputTokens": 10, "outputTokens": 1}
    return note("thread/tokenUsage/updated", turnId=turn, tokenUsage={"total": counted})


@pytest.mark.parametrize("known", [None, {"input_tokens": 1, "output_tokens": 1}])
def test_a_resumed_threads_past_is_what_codex_says(known: dict[str, float] | None) -> None:
    """It tells the totals that it begins with; those are taken off, whatever was known of them."""
    conversation = begun(session=THREAD, session_counters=known)
    tell(conversation, INITIALIZED, OPENED, usage(OTHER, 700), ACCEPTED)
    [told] = [a for a in tell(conversation, usage(TURN, 1000)) if isinstance(a, Usage)]

    assert told.counters["total"] == 300
    assert (told.model, told.provider) == ("gpt-5.5", "openai")


@pytest.mark.parametrize(
    ("frame", "type_", "members"),
    [
        (
            note("turn/plan/updated", plan=[{"step": "one", "status": "inProgress"}]),
            "agent.plan",
            {"entries": [{"content": "one", "status": "in_progress"}]},
        ),
        (
            note("error", error={"message": "Reconnecting... 2/5"}, willRetry=True),
            "agent.status",
            {"phase": "working", "label": "Reconnecting... 2/5"},
        ),
        (
            {"method": "configWarning", "params": {"summary": "bad key", "details": "line 3"}},
            "agent.notice",
            {"text": "bad key: line 3", "severity": "warning"},
        ),
        (
            note("mcpServer/startupStatus/updated", name="m", status="failed", error="gone"),
            "agent.notice",
            {"text": "MCP server m did not start: gone", "severity": "warning"},
        ),
        (
            note("model/rerouted", toModel="gpt-x", reason="highRiskCyberActivity"),
            "agent.notice",
            {"text": "model: gpt-x (highRiskCyberActivity)", "severity": "warning"},
        ),
        (
            note("item/reasoning/summaryPartAdded", itemId="r", summaryIndex=1),
            "agent.thought_chunk",
            {"message_id": "r", "text": "\n\n"},
        ),
        (
            note("moon/rises", over="hill"),
            "agent.unknown",
            {"raw": {"method": "moon/rises", "params": {"threadId": THREAD, "over": "hill"}}},
        ),
    ],
)
def test_what_codex_tells_of_its_own_accord(
    frame: dict[str, Any], type_: str, members: dict[str, Any]
) -> None:
    """Each notification is the event that it means; one that nobody knows stays as it came."""
    [event] = events_of(tell(ready(), frame))

    assert (event.type, dict(event.members)) == (type_, members)


def test_text_is_told_once() -> None:
    """What came in pieces is not repeated by the whole item; what no piece held is told by it."""
    conversation = ready()
    whole = {"type": "agentMessage", "id": "m", "text": "hello world"}
    pieces = tell(
        conversation,
        note("item/agentMessage/delta", itemId="m", delta="hello "),
        note("item/completed", item=whole),
        note("item/completed", item={**whole, "id": "n"}),
    )

    texts = [event.members["text"] for event in events_of(pieces)]
    assert texts == ["hello ", "world", "hello world"]


def test_of_other_threads_only_tools_are_told() -> None:
    """Agents that codex starts itself change files too; what they say is not the run's answer."""
    change = {"type": "fileChange", "id": "c", "changes": [], "status": "completed"}
    said_there = {"type": "agentMessage", "id": "m", "text": "mine"}
    events = events_of(
        tell(
            ready(),
            note("item/completed", threadId=OTHER, item=change),
            note("item/completed", threadId=OTHER, item=said_there),
            note("item/agentMessage/delta", threadId=OTHER, itemId="m", delta="mine"),
        )
    )

    assert [event.type for event in events] == ["tool.call"]


def test_what_codex_was_asked_to_keep_to_itself_is_left_out() -> None:
    """An older codex tells it all the same."""
    conversation = CODEX.converse(AgentRequest("/workspace", "/home/agent", keep=True))
    [greeting] = said(conversation.start())
    untold = greeting["params"]["capabilities"]["optOutNotificationMethods"]

    assert tell(ready(), *(note(method) for method in untold)) == []
