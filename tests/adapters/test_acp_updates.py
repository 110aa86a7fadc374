"""session/update variants: told as events where known, kept raw where not."""

import json
from typing import Any

import pytest

from agents_peer import SESSION, Peer, prompted, ready, request
from agents_replay import events_of
from coachman_adapters.acp.quirks import Quirks


def told(peer: Peer, variant: str, **members: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(event.type, event.members) for event in events_of(peer.update(variant, **members))]


TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("variant", "members", "event"),
    [
        (
            "agent_message_chunk",
            {"content": TEXT, "messageId": "m1"},
            ("agent.message_chunk", {"message_id": "m1", "text": "hi"}),
        ),
        ("agent_thought_chunk", {"content": TEXT}, ("agent.thought_chunk", {"text": "hi"})),
        (
            "agent_message_chunk",
            {"content": {"type": "resource_link", "uri": "file:///a", "name": "a"}},
            ("agent.message_chunk", {"text": "[a](file:///a)"}),
        ),
        ("plan", {"entries": [{"content": "x"}]}, ("agent.plan", {"entries": [{"content": "x"}]})),
        (
            "available_commands_update",
            {"availableCommands": [{"name": "init"}]},
            ("agent.commands", {"commands": [{"name": "init"}]}),
        ),
        (
            "current_mode_update",
            {"currentModeId": "plan"},
            ("agent.notice", {"text": "mode: plan"}),
        ),
        ("current_mode_update", {"modeId": "plan"}, ("agent.notice", {"text": "mode: plan"})),
        ("session_info_update", {"title": "T"}, ("agent.notice", {"text": "session title: T"})),
        (
            "notice",
            {"severity": "warning", "title": "Slow", "description": "rate limited"},
            ("agent.notice", {"text": "Slow: rate limited", "severity": "warning"}),
        ),
        (
            "compaction_update",
            {"compactionId": "c", "status": "in_progress"},
            ("agent.status", {"phase": "working", "label": "compacting the context"}),
        ),
        (
            "compaction_summary_chunk",
            {"compactionId": "c", "content": TEXT},
            ("agent.notice", {"text": "hi"}),
        ),
    ],
)
def test_known_variants(variant: str, members: dict[str, Any], event: tuple[str, Any]) -> None:
    """Each stable variant has its event."""
    assert told(prompted(), variant, **members) == [event]


@pytest.mark.parametrize(
    ("variant", "members"),
    [
        ("subagent_update", {"agent": "x"}),
        ("agent_message_chunk", {}),
        ("agent_message_chunk", {"content": "text"}),
        ("agent_message_chunk", {"content": {"type": "image", "data": "AA==", "mimeType": "i"}}),
        ("agent_message_chunk", {"content": {"type": "text", "text": None}}),
        ("plan", {"entries": "none"}),
        ("notice", {}),
        ("tool_call", {"title": "no id"}),
        ("tool_call_update", {"toolCallId": []}),
    ],
)
def test_unknown_and_malformed_variants_are_kept_raw(variant: str, members: dict[str, Any]) -> None:
    """What this version does not know never fails a run, and never gets lost."""
    raw = {"sessionUpdate": variant, **members}

    assert told(prompted(), variant, **members) == [("agent.unknown", {"raw": raw})]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"update": None},
        {"sessionId": SESSION, "update": {"sessionUpdate": ["tool_call"]}},
        {"sessionId": SESSION, "update": {"sessionUpdate": None}},
        {"sessionId": "s2", "update": {"sessionUpdate": "agent_message_chunk", "content": TEXT}},
    ],
)
def test_updates_of_nothing_or_of_another_session_are_kept_raw(params: dict[str, Any]) -> None:
    """Another session's chunk is not this run's message."""
    events = events_of(prompted().say({"method": "session/update", "params": params}))

    assert [(event.type, event.members) for event in events] == [("agent.unknown", {"raw": params})]


def test_unknown_notifications_are_kept_raw() -> None:
    """An extension's notification is told, not answered."""
    peer = prompted()
    sent = len(peer.sent)

    [event] = events_of(peer.say({"method": "_vendor/ping", "params": {"n": 1}}))

    assert event.members == {"raw": {"method": "_vendor/ping", "params": {"n": 1}}}
    assert len(peer.sent) == sent


def test_updates_outside_turns_are_told() -> None:
    """Agents speak before the first prompt and after the last answer."""
    early = ready()
    late = prompted(request(keep=True))
    late.result({"stopReason": "end_turn"})

    assert told(early, "agent_message_chunk", content=TEXT)
    assert told(late, "agent_message_chunk", content=TEXT)


def test_an_echo_of_our_prompt_is_dropped() -> None:
    """user_message_chunk during our own turn repeats what we said; between turns it is news."""
    peer = prompted(request(keep=True))
    assert told(peer, "user_message_chunk", content=TEXT) == []
    peer.result({"stopReason": "end_turn"})

    assert told(peer, "user_message_chunk", content=TEXT) == [
        ("user.message_chunk", {"text": "hi"})
    ]


def test_a_tool_call_is_told_whole_then_by_its_changes() -> None:
    """Updates carry only what changed; one that changes nothing is not told."""
    peer = prompted()
    call = {"toolCallId": "t1", "title": "ls", "kind": "execute", "status": "pending"}
    content = [{"type": "content", "content": {"type": "text", "text": "a\nb"}}]

    first = told(peer, "tool_call", **call, rawInput={"command": "ls"})
    same = told(peer, "tool_call_update", **call, rawInput={"command": "ls"})
    done = told(peer, "tool_call_update", **call | {"status": "completed"}, content=content)

    assert first == [
        (
            "tool.call",
            {
                "tool_call_id": "t1",
                "kind": "execute",
                "title": "ls",
                "status": "pending",
                "input": {"command": "ls"},
            },
        )
    ]
    assert same == []
    members = {"tool_call_id": "t1", "status": "completed", "output": "a\nb"}
    assert done == [("tool.call_update", members)]


def test_a_tool_first_seen_in_an_update_is_announced() -> None:
    """An update for a call nobody announced becomes a tool.call with defaults."""
    [(kind, members)] = told(prompted(), "tool_call_update", toolCallId="t9", status="completed")

    assert kind == "tool.call"
    assert members == {
        "tool_call_id": "t9",
        "kind": "other",
        "title": "tool",
        "status": "completed",
    }


def test_diffs_are_kept_and_raw_output_goes_before_shown_text() -> None:
    """The content of a tool is its diffs; its output is what it reported itself."""
    diff = {"type": "diff", "path": "/a", "oldText": None, "newText": "x"}
    shown = {"type": "content", "content": TEXT}
    members = {"content": [diff, shown, "junk"], "rawOutput": {"exit": 0}}

    [(_, told_members)] = told(prompted(), "tool_call", toolCallId="t", title="w", **members)

    assert told_members["content"] == [diff]
    assert told_members["output"] == {"exit": 0}


def test_the_first_title_may_be_the_tools_name() -> None:
    """Where an agent says so, the name is taken from the first title."""
    peer = prompted(quirks=Quirks(title_is_name=True))
    [(_, members)] = told(peer, "tool_call", toolCallId="t", title="write", kind="edit")
    [(_, changed)] = told(peer, "tool_call_update", toolCallId="t", title="notes.md")

    assert members["name"] == "write"
    assert changed == {"tool_call_id": "t", "title": "notes.md"}


@pytest.mark.parametrize(
    "output",
    [
        "x" * 5_000_000,
        ["y" * 1000] * 5000,
        {"lines": [{"text": "z" * 40_000}] * 100},
        {f"key {n}": "\x00" * 900 for n in range(3000)},
    ],
    ids=["one string", "a list", "long strings", "escapes"],
)
def test_large_tool_output_is_cut_to_a_journals_event(output: object) -> None:
    """An event never grows beyond its limit, and its span leads to the whole."""
    peer = prompted()

    [event] = events_of(
        peer.update("tool_call_update", toolCallId="t", status="completed", rawOutput=output)
    )

    assert len(json.dumps(event.members)) < 256 * 1024
    assert event.members["status"] == "completed"
    assert event.span is not None
    assert event.span.size > 1_000_000


def test_options_that_change_are_noticed() -> None:
    """A model switched by the agent itself is told by name and value."""
    peer = Peer()
    peer.initialized()
    option = {"id": "model", "name": "Model", "type": "select", "currentValue": "a", "options": []}
    peer.result({"sessionId": SESSION, "configOptions": [option]})

    same = told(peer, "config_option_update", configOptions=[option, None, {"id": 5}])
    changed = told(peer, "config_option_update", configOptions=[option | {"currentValue": "b"}])

    assert same == []
    assert changed == [("agent.notice", {"text": "model: b"})]
