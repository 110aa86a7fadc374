"""What an agent's own words, tools and counters mean for the view of its run."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...journal import vocabulary as v
from ..facts.members import MAX_REMEMBERED, NOW_CHARACTERS
from . import markers

if TYPE_CHECKING:
    from .view import View

Event = Mapping[str, Any]
MAX_MESSAGE_CHARACTERS = 512 * 1024
TOOL_ENDS = frozenset({"completed", "failed", "cancelled"})


def _session(view: "View", event: Event) -> None:
    view.session = event["session"]
    view.first_session = view.first_session or view.session
    view.agent_version = event.get("agent_version") or view.agent_version


def _chunk(view: "View", event: Event) -> None:
    view.first_response_ms = view.first_response_ms or event["ts"]
    view.spoke = True
    message_id = event.get("message_id")
    if not view.message_open or (message_id and message_id != view.message_id):
        view.message, view.message_characters = [], 0
        view.message_from, view.message_cut = event["seq"], False
        view.now, view.marker_line, view.fenced = None, "", False
    view.message_id, view.message_open = message_id or view.message_id, True
    view.message.append(event["text"])
    if said := markers.read(view, event["text"]):
        view.now = said[:NOW_CHARACTERS]
    view.message_characters += len(event["text"])
    if view.message_characters > 2 * MAX_MESSAGE_CHARACTERS:
        # The end of what a program wrote says more than its beginning.
        view.message = [view.final_message[-MAX_MESSAGE_CHARACTERS:]]
        view.message_characters, view.message_cut = MAX_MESSAGE_CHARACTERS, True


def _tool(view: "View", event: Event) -> None:
    view.message_open, view.spoke = False, True
    # It got on since the last limit; words alone may be the provider's refusal.
    view.waits, view.used_tools = 0, True
    _follow_tool(view, event)
    if title := event.get("title") or event.get("name"):
        view.now = str(title)[:NOW_CHARACTERS]


def _follow_tool(view: "View", event: Event) -> None:
    """While a tool is used, silence is nothing to wonder at."""
    call = str(event.get("tool_call_id"))
    if event.get("status") in TOOL_ENDS:
        view.open_tools.discard(call)
    elif event["type"] == v.TOOL_CALL and len(view.open_tools) < MAX_REMEMBERED:
        view.open_tools.add(call)


def _thought(view: "View", _event: Event) -> None:
    view.message_open, view.spoke = False, True


def _status(view: "View", event: Event) -> None:
    view.now = str(event.get("label") or event.get("phase"))[:NOW_CHARACTERS]


def _plan(view: "View", event: Event) -> None:
    """What it is at, by its own list; a tool that is used says more."""
    entries = event.get("entries") or ()
    current = next((e for e in entries if e.get("status") == "in_progress"), None)
    if current is not None and current.get("content") and not view.open_tools:
        view.now = str(current["content"])[:NOW_CHARACTERS]


def _usage(view: "View", event: Event) -> None:
    view.usage = dict(event["usage"])
    for name in ("cost_usd", "model", "provider", "session_counters"):
        if event.get(name) is not None:
            setattr(view, name, event[name])


READERS: dict[str, Callable[["View", Event], None]] = {
    v.SESSION: _session,
    v.USAGE_UPDATED: _usage,
    v.MESSAGE_CHUNK: _chunk,
    v.THOUGHT_CHUNK: _thought,
    v.TOOL_CALL: _tool,
    v.TOOL_UPDATE: _tool,
    v.STATUS: _status,
    v.PLAN: _plan,
}
