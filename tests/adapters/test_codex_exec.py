"""What `codex exec` says, record by record, and how codex is started."""

import json
from typing import Any

import pytest

from agents_replay import ended, events_of, stdin_of
from coachman_adapters.codex import CODEX
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Cancel,
    CloseStdin,
    Conversation,
    Ending,
    Event,
    Prompt,
    SessionKnown,
    Usage,
)

THREAD = "01a22b10-cb6a-7ab3-9f39-cb1626cd59b1"
DONE: dict[str, Any] = {
    "type": "turn.completed",
    "usage": {
        "input_tokens": 2100,
        "cached_input_tokens": 200,
        "output_tokens": 18,
        "reasoning_output_tokens": 5,
    },
}


def request(**members: Any) -> AgentRequest:
    return AgentRequest(cwd="/workspace", home="/home/agent", **members)


def prompted(**members: Any) -> Conversation:
    conversation = CODEX.converse(request(**members))
    conversation.start()
    conversation.intend(Prompt(1, "do"))
    return conversation


def tell(conversation: Conversation, *records: dict[str, Any]) -> list[Action]:
    return conversation.receive(b"".join(json.dumps(each).encode() + b"\n" for each in records))


def item(kind: str, phase: str = "completed", **members: Any) -> dict[str, Any]:
    return {"type": f"item.{phase}", "item": {"id": "item_0", "type": kind, **members}}


def told(*records: dict[str, Any]) -> list[Event]:
    return events_of(tell(prompted(), *records))


def test_the_prompt_is_all_of_stdin() -> None:
    """It is written and stdin closed, once; a second prompt comes too late."""
    conversation = CODEX.converse(request())
    first = conversation.intend(Prompt(1, "a 'prompt'\nof lines"))
    second = conversation.intend(Prompt(2, "more"))

    assert stdin_of(first) == b"a 'prompt'\nof lines"
    assert isinstance(first[-1], CloseStdin)
    assert [end.error and end.error["code"] for end in ended(second)] == ["closed"]


def test_a_connection_that_is_opened_again_is_no_failure() -> None:
    """codex says that it reconnects, then goes on: the turn ends well."""
    conversation = prompted()
    lost = {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected)"}
    actions = tell(conversation, lost, item("agent_message", text="well"), DONE)

    assert [event.type for event in events_of(actions)] == ["agent.status", "agent.message_chunk"]
    assert [end.stop_reason for end in ended(actions)] == ["end_turn"]


def test_without_a_terminal_record_the_turn_failed() -> None:
    """Exit status 0 is no success where codex did not say that the turn was over."""
    conversation = prompted()
    tell(conversation, {"type": "thread.started", "thread_id": THREAD}, {"type": "turn.started"})
    [end] = ended(conversation.finish(Ending(0, None)))

    assert end.error is not None
    assert end.error["code"] == "agent_exited"
    assert "before its turn was over" in end.error["message"]


def test_a_death_quotes_the_last_error() -> None:
    """What codex complained about before it died is in the error."""
    conversation = prompted()
    tell(conversation, {"type": "error", "message": '{"error": {"message": "no such model"}}'})
    [end] = ended(conversation.finish(Ending(1, None)))

    assert end.error is not None
    assert end.error["message"].endswith("no such model")


def test_another_thread_is_told() -> None:
    """Whoever asked for another session can see that codex began a new one."""
    conversation = prompted(session=THREAD)
    other = THREAD[:-1] + "2"

    assert tell(conversation, {"type": "thread.started", "thread_id": other}) == [
        SessionKnown(other)
    ]


def test_a_share_of_a_thread_whose_past_is_unknown_is_not_told() -> None:
    """Without the counters of the run before, the totals would count the past again."""
    conversation = prompted(session=THREAD, session_counters=None)

    assert not [action for action in tell(conversation, DONE) if isinstance(action, Usage)]


def test_reasoning_is_counted_apart_from_the_output_that_holds_it() -> None:
    """codex's output has its reasoning in it, its input what was cached."""
    [usage] = [action for action in tell(prompted(), DONE) if isinstance(action, Usage)]

    counters = {"input": 1900, "cached_input": 200, "output": 13, "reasoning": 5, "total": 2118}
    assert usage.counters == counters


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            item("web_search", query="what is new", action={"type": "search"}),
            {"name": "web_search", "kind": "search", "title": "what is new", "status": "completed"},
        ),
        (
            item("web_search", query="", action={"type": "openPage", "url": "https://a.example"}),
            {"name": "web_search", "kind": "fetch", "title": "https://a.example"},
        ),
        (
            item("mcp_tool_call", server="s", tool="t", arguments={"a": 1}, status="completed"),
            {"name": "s.t", "kind": "other", "input": {"a": 1}, "status": "completed"},
        ),
        (
            item("mcp_tool_call", server="s", tool="t", error={"message": "no"}, status="failed"),
            {"name": "s.t", "output": "no", "status": "failed"},
        ),
        (
            item("command_execution", "started", command="/bin/sh -c 'a && b'"),
            {"name": "exec_command", "title": "a && b", "status": "in_progress"},
        ),
        (
            item("command_execution", "started", command="/bin/sh -c 'unclosed"),
            {"title": "/bin/sh -c 'unclosed"},
        ),
        (
            item("file_change", changes=[{"path": "a", "kind": "update"}], status="declined"),
            {"name": "apply_patch", "title": "a", "locations": [{"path": "a"}], "status": "failed"},
        ),
        (
            item("collab_tool_call", "started", tool="spawn_agent", prompt="look"),
            {"name": "spawn_agent", "input": {"prompt": "look"}, "status": "in_progress"},
        ),
    ],
)
def test_every_tool_reads_like_every_other_agents(
    record: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Name, kind, title, input, output and status, whichever of codex's tools it was."""
    [event] = told(record)

    assert event.type == "tool.call"
    assert {name: event.members.get(name) for name in expected} == expected


def test_a_todo_list_is_the_plan() -> None:
    """It is told whenever it changes."""
    steps = [{"text": "one", "completed": True}, {"text": "two", "completed": False}]
    events = told(item("todo_list", "started", items=steps), item("todo_list", "updated", items=[]))

    assert [event.type for event in events] == ["agent.plan", "agent.plan"]
    assert events[0].members["entries"] == [
        {"content": "one", "status": "completed"},
        {"content": "two", "status": "pending"},
    ]


def test_a_warning_is_a_notice_and_what_is_unknown_is_kept() -> None:
    """An item of type error fails nothing; an unheard-of item or record stays as it came."""
    events = told(item("error", message="careful"), item("hologram", of=1), {"type": "x"})

    assert [event.type for event in events] == ["agent.notice", "agent.unknown", "agent.unknown"]
    assert events[0].members == {"text": "careful", "severity": "warning"}
    assert events[1].members["raw"]["of"] == 1


@pytest.mark.parametrize("records", [[], [DONE], [{"type": "turn.failed", "error": {}}]])
def test_whatever_end_follows_a_cancel_confirms_it(records: list[dict[str, Any]]) -> None:
    """codex is signalled; whether it says anything more or not, the turn was cancelled."""
    conversation = prompted()
    tell(conversation, item("command_execution", "started", command="sleep 9"))
    conversation.intend(Cancel())
    actions = tell(conversation, *records) + conversation.finish(Ending(None, 15))

    assert [end.stop_reason for end in ended(actions)] == ["cancelled"]
    assert events_of(actions, "tool.call_update")[-1].members["status"] == "cancelled"


def test_a_cancel_before_the_prompt_keeps_it_from_codex() -> None:
    """Nothing is written any more, and the turn counts as cancelled."""
    conversation = CODEX.converse(request())
    actions = conversation.intend(Cancel()) + conversation.intend(Prompt(1, "do"))

    assert actions == [CloseStdin()]
    assert [end.stop_reason for end in ended(conversation.finish(Ending(1, None)))] == ["cancelled"]


def test_an_answer_to_nothing_cancels_nothing() -> None:
    """The turn goes on to its own end."""
    conversation = prompted()

    assert conversation.intend(Answer("p1", "allow")) == []
    assert [end.stop_reason for end in ended(tell(conversation, DONE))] == ["end_turn"]


# --- how it is started -----------------------------------------------------------------


def test_a_bounded_run_is_exec_outside_codexs_own_sandbox() -> None:
    """All that was asked for is on the command line, the prompt comes on stdin."""
    plan = CODEX.plan(request(model="gpt-5.5", effort="high", provider="azure", session=THREAD))

    assert plan.argv[:2] == ("{executable}", "exec")
    assert "--dangerously-bypass-approvals-and-sandbox" in plan.argv
    assert 'model_reasoning_effort="high"' in plan.argv
    assert 'model_provider="azure"' in plan.argv
    assert plan.argv[-5:] == ("-m", "gpt-5.5", "resume", THREAD, "-")
    assert "check_for_update_on_startup=false" in plan.argv


@pytest.mark.parametrize("members", [{"keep": True}, {"permissions": "ask"}])
def test_what_is_kept_or_asked_is_the_app_servers(members: dict[str, Any]) -> None:
    """exec takes neither answers nor a second prompt."""
    plan = CODEX.plan(request(**members))

    assert plan.argv[:2] == ("{executable}", "app-server")
    assert plan.epilogue == ()


def test_a_key_that_only_exec_would_take_is_logged_in_with() -> None:
    """The app server ignores the variable, so codex is logged in by it first, in its home."""
    plan = CODEX.plan(request(keep=True, env_names=frozenset({"CODEX_API_KEY"})))
    bounded = CODEX.plan(request(env_names=frozenset({"CODEX_API_KEY"})))

    assert plan.argv[:2] == ("/bin/sh", "-c")
    assert "login --with-api-key" in plan.argv[2]
    assert plan.argv[3:5] == ("{executable}", "app-server")
    assert bounded.argv[0] == "{executable}"


@pytest.mark.parametrize("session", ["my-thread", "", THREAD.upper(), f"{THREAD} "])
def test_a_session_that_is_no_threads_id_is_refused(session: str) -> None:
    """exec would silently begin a new thread for it."""
    with pytest.raises(ValueError, match="cannot resume session"):
        CODEX.plan(request(session=session))
