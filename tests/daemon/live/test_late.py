"""What comes behind the end of its turn is kept, and marked."""

from typing import Any

from coachmand.journal.lines import Entry
from coachmand.runs.reading.late import marked
from coachmand.runs.reading.view import View


def said(type_: str, **members: Any) -> Entry:
    return Entry(type_, members, n=1)


def late(view: View, *entries: Entry) -> list[bool]:
    return ["late" in entry.members for entry in marked(view, entries)]


def test_between_two_turns_all_that_belongs_to_one_is_late() -> None:
    """Text, thoughts and tools, also in the very batch that has the end; not usage or sessions."""
    chunk, usage = said("agent.message_chunk", text="x"), said("usage.updated", usage={})
    ended, started = said("turn.ended", stop_reason="end_turn"), Entry("turn.started", {"turn": 2})

    assert late(View(turn=1), chunk, ended, chunk, usage, started, chunk) == [
        *(False, False, True),
        *(False, False, False),
    ]
    assert late(View(turn=1, turn_over=True), chunk, usage) == [True, False]


def test_a_tool_of_the_turn_before_is_late_in_the_next() -> None:
    """It went on although its turn was interrupted; tools of the turn itself are not."""
    view = View()
    base = {"ts": 1, "n": 1}
    events = [
        {"type": "turn.started", "turn": 1, "prompt": 1},
        {"type": "tool.call", "tool_call_id": "old", "title": "sleep"},
        {"type": "turn.ended", "turn": 1, "stop_reason": "cancelled"},
        {"type": "agent.input", "kind": "prompt", "prompt_turn": 2, "prompt": 2},
        {"type": "turn.started", "turn": 2, "prompt": 2},
    ]
    for seq, event in enumerate(events, 1):
        view.apply({**base, **event, "seq": seq})
    update = [
        said("tool.call_update", tool_call_id=name, status="completed") for name in ("old", "new")
    ]

    assert late(view, *update) == [True, False]


def test_a_mark_survives_a_checkpoint() -> None:
    """A daemon that comes later knows the tools that were left as well."""
    view = View.restore(View(turn=2, left_tools={"old"}).snapshot())

    assert late(view, said("tool.call_update", tool_call_id="old")) == [True]
