"""A hostile agent: no sequence of frames raises, and a few truths always hold."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents_peer import OPTIONS, SESSION, Peer, request
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.conversation import (
    Ask,
    CloseStdin,
    Event,
    Option,
    TurnEnded,
    Usage,
    Withdraw,
    Write,
)
from coachman_adapters.events import CONVERSATION_EVENTS, OPTION_KINDS, STOP_REASONS

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from([SESSION, "end_turn", "cancelled", "text", "t1", "allow_once", "model", 1]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
VARIANTS = st.sampled_from(
    [
        "agent_message_chunk",
        "agent_thought_chunk",
        "user_message_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
        "notice",
        "compaction_update",
        "compaction_summary_chunk",
        "unheard_of",
    ]
)
MEMBERS = st.sampled_from(
    [
        "content",
        "toolCallId",
        "title",
        "kind",
        "status",
        "entries",
        "configOptions",
        "cost",
        "rawInput",
        "rawOutput",
        "locations",
        "messageId",
        "availableCommands",
    ]
)
CONTENT = st.one_of(st.just({"type": "text", "text": "hi"}), VALUES)
UPDATES = st.builds(
    lambda variant, members: {"sessionUpdate": variant, **members},
    st.one_of(VARIANTS, VALUES),
    st.dictionaries(MEMBERS, CONTENT, max_size=4),
)
OPTION = st.fixed_dictionaries({"optionId": VALUES, "kind": VALUES, "name": VALUES})
CONFIG = st.lists(
    st.one_of(
        VALUES,
        st.fixed_dictionaries({"id": SCALARS, "category": SCALARS, "options": VALUES}),
    ),
    max_size=3,
)
RESULTS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {},
        optional={
            "protocolVersion": st.sampled_from([1, 2, "1", None]),
            "agentCapabilities": VALUES,
            "authMethods": VALUES,
            "agentInfo": VALUES,
            "sessionId": st.sampled_from([SESSION, "s2", 5, None]),
            "configOptions": CONFIG,
            "stopReason": SCALARS,
            "usage": VALUES,
        },
    ),
)
IDS = st.one_of(st.integers(0, 6), st.integers(0, 6).map(str), SCALARS)
FRAMES = st.one_of(
    st.builds(lambda i, r: {"id": i, "result": r}, IDS, RESULTS),
    st.builds(lambda i, e: {"id": i, "error": e}, IDS, VALUES),
    st.builds(
        lambda s, u: {"method": "session/update", "params": {"sessionId": s, "update": u}},
        st.sampled_from([SESSION, SESSION, "s2", None]),
        UPDATES,
    ),
    st.builds(
        lambda i, t, o: {
            "id": i,
            "method": "session/request_permission",
            "params": {"sessionId": SESSION, "toolCall": t, "options": o},
        },
        IDS,
        st.one_of(UPDATES, VALUES),
        st.one_of(st.just(OPTIONS), st.lists(OPTION, max_size=3), VALUES),
    ),
    st.builds(lambda i: {"method": "$/cancel_request", "params": {"requestId": i}}, IDS),
    st.builds(lambda i, m, p: {"id": i, "method": m, "params": p}, IDS, st.text(), VALUES),
    st.builds(lambda m, p: {"method": m, "params": p}, st.text(max_size=8), VALUES),
)
STEPS = st.lists(
    st.one_of(
        FRAMES.map(lambda frame: ("frame", frame)),
        FRAMES.map(lambda frame: ("frame", frame)),
        st.binary(max_size=20).map(lambda data: ("raw", data + b"\n")),
        st.just(("good", None)),
        st.just(("prompt", None)),
        st.just(("cancel", None)),
        st.tuples(st.just("answer"), st.sampled_from(["p1", "p2"])),
        st.tuples(st.just("timer"), st.sampled_from(["initialize", "session", "settle"])),
    ),
    max_size=25,
)


class Checked:
    """A peer whose every action is held against the contract."""

    def __init__(self, keep: bool) -> None:
        asked = request(keep=keep, model="m", effort="high")
        self.peer = Peer(asked, Quirks(settle_s=0, cost="session"))
        self.prompts = self.ends = self.closes = 0
        self.asked: set[str] = set()

    def take(self, step: tuple[str, Any]) -> None:
        kind, value = step
        peer = self.peer
        if kind == "frame":
            self.check(peer.say(value))
        elif kind == "raw":
            self.check(peer.raw(value))
        elif kind == "good":
            self.check(peer.result(self.good()))
        elif kind == "prompt":
            self.prompts += 1
            self.check(peer.prompt())
        elif kind == "cancel":
            self.check(peer.cancel())
        elif kind == "answer":
            self.check(peer.answer(value, "once"))
        else:
            self.check(peer.expire(value))

    def good(self) -> dict[str, Any]:
        """What a well-behaved agent answers to anything."""
        good = {"protocolVersion": 1, "sessionId": SESSION, "stopReason": "end_turn"}
        choice = {"value": "high", "name": "High"}
        effort = {"id": "thought_level", "name": "E", "type": "select", "options": [choice]}
        return good | {"configOptions": [effort]}

    def check(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, Event):
                assert action.type in CONVERSATION_EVENTS
                json.dumps(action.members, allow_nan=False)
            elif isinstance(action, Ask):
                assert action.request not in self.asked
                self.asked.add(action.request)
                assert all(isinstance(option, Option) for option in action.options)
                assert all(option.kind in OPTION_KINDS for option in action.options)
            elif isinstance(action, Withdraw):
                assert action.request in self.asked
            elif isinstance(action, TurnEnded):
                self.ends += 1
                assert action.stop_reason in STOP_REASONS
                assert (action.error is not None) == (action.stop_reason == "error")
            elif isinstance(action, CloseStdin):
                self.closes += 1
            elif isinstance(action, Write):
                assert action.data.endswith(b"\n")
                assert action.data.count(b"\n") == 1
            elif isinstance(action, Usage):
                assert all(value >= 0 for value in action.counters.values())
        assert self.ends <= self.prompts
        assert self.closes <= 1


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.booleans(), st.integers(0, 3))
def test_nothing_an_agent_says_breaks_the_conversation(
    steps: list[tuple[str, Any]], keep: bool, start: int
) -> None:
    """No frames in any order raise; every prompt ends exactly once; snapshots go on alike."""
    checked = Checked(keep)
    for step in [("good", None)] * start + steps:
        checked.take(step)
    snapshot = checked.peer.conversation.snapshot()
    twin = Peer(checked.peer.request, checked.peer.quirks)
    twin.conversation.restore(json.loads(json.dumps(snapshot)))

    last = checked.peer.gone(1)

    checked.check(last)
    assert checked.ends == checked.prompts
    assert twin.gone(1) == last
