"""What a run does now: by its agent's tools, plan, status, and markers within its words."""

from typing import Any

import pytest

from coachmand.runs.reading.view import View


def view_of(*events: dict[str, Any]) -> View:
    view = View()
    for seq, event in enumerate(events, 1):
        view.apply({"seq": seq, "ts": seq, "run": "r", **event})
    return view


def said(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "agent.message_chunk", "message_id": "m", "text": text} for text in pieces]


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("<|status: testing | the parser|>\n", "the parser"),
        ("  <|status: testing|>  ", "testing"),
        ("on it\n<|status: a|>\n<|status: b | two|>\nmore", "two"),
        ("I print <|status: a|> here\n", None),
        ("```\n<|status: a | inside|>\n```\n", None),
        ("~~~ md\n<|status: a|>\n~~~\n<|status: b|>\n", "b"),
        ("x" * 600 + "<|status: a|>\n", None),
        ("<|status: |>\n<|status: 1|>\n<|state: a|>\n", None),
    ],
)
def test_a_marker_in_an_agents_words_is_what_it_does(text: str, now: str | None) -> None:
    """A whole line outside of fences counts, however the text was cut into pieces."""
    assert view_of(*said(text)).now == now
    assert view_of(*said(*text)).now == now


def test_the_newest_word_of_an_agent_counts() -> None:
    """Tool, plan, status and marker follow each other; a tool that is used is not hidden."""
    plan = {"type": "agent.plan", "entries": [{"content": "step two", "status": "in_progress"}]}
    tool = {"type": "tool.call", "tool_call_id": "t", "title": "npm test", "status": "pending"}
    done = {"type": "tool.call_update", "tool_call_id": "t", "status": "completed"}
    status = {"type": "agent.status", "phase": "thinking", "label": None}
    marked = said("<|status: x | marked|>\n")

    assert view_of(plan).now == "step two"
    assert view_of(plan, tool).now == view_of(tool, plan).now == "npm test"
    assert view_of(tool, done, plan).now == "step two"
    assert view_of(plan, status).now == "thinking"
    assert view_of(status, *marked).now == "marked"
    over = {"type": "turn.ended", "turn": 1, "stop_reason": "end_turn"}
    assert view_of(*marked, over).now is None
