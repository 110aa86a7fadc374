"""session/update variants as events.

Whatever a variant lacks is left out, whatever is malformed is kept raw as
``agent.unknown``: an update never fails a run.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coachman_adapters import events, texts
from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import Event, Span

HISTORY = frozenset(
    {
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "notice",
        "compaction_update",
        "compaction_summary_chunk",
    }
)
"""Variants that a session/load repeats from the session's past."""

_CHUNKS = {
    "user_message_chunk": events.USER_CHUNK,
    "agent_message_chunk": events.MESSAGE_CHUNK,
    "agent_thought_chunk": events.THOUGHT_CHUNK,
}
_COMPACTING = {"in_progress": "compacting the context", "failed": "compaction failed"}


def events_of(update: Mapping[str, Any], tools: Tools, span: Span) -> list[Event]:
    """The journal's events for one update; usage and configuration are not told here."""
    variant = str(update.get("sessionUpdate"))
    if variant in _CHUNKS:
        return list(_chunk(_CHUNKS[variant], update, span))
    if variant in ("tool_call", "tool_call_update"):
        return tools.upsert(update, span)
    reader = _READERS.get(variant)
    if reader is None:
        return [unknown(update, span)]
    event_type, members = reader(update)
    if members is None:
        return [unknown(update, span)]
    return [Event(event_type, texts.fit(members, span.size), span)] if members else []


def unknown(raw: Any, span: Span) -> Event:
    """Something this version does not know, kept as it came."""
    return Event(events.UNKNOWN, texts.fit({"raw": raw}, span.size), span)


def _chunk(event_type: str, update: Mapping[str, Any], span: Span) -> Iterator[Event]:
    text = text_of(update.get("content"))
    if text is None:
        yield unknown(update, span)
        return
    named = texts.is_id(update.get("messageId"))
    members = {"message_id": update["messageId"]} if named else {}
    for piece in texts.pieces(text):
        yield Event(event_type, {**members, "text": piece}, span)


def text_of(block: Any) -> str | None:
    """A content block as text; None for images, sound and what is malformed."""
    if not isinstance(block, dict):
        return None
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    if block.get("type") == "resource_link" and isinstance(block.get("uri"), str):
        return f"[{block.get('name') or block['uri']}]({block['uri']})"
    return None


Read = tuple[str, dict[str, Any] | None]


def _plan(update: Mapping[str, Any]) -> Read:
    entries = update.get("entries")
    return events.PLAN, {"entries": entries} if isinstance(entries, list) else None


def _commands(update: Mapping[str, Any]) -> Read:
    commands = update.get("availableCommands")
    return events.COMMANDS, {"commands": commands} if isinstance(commands, list) else None


def _mode(update: Mapping[str, Any]) -> Read:
    # The published page and the schema disagree about the name.
    mode = update.get("currentModeId", update.get("modeId"))
    return events.NOTICE, {"text": f"mode: {mode}"} if isinstance(mode, str) else None


def _session_info(update: Mapping[str, Any]) -> Read:
    title = update.get("title")
    return events.NOTICE, {"text": f"session title: {title}"} if isinstance(title, str) else {}


def _notice(update: Mapping[str, Any]) -> Read:
    title = update.get("title")
    if not isinstance(title, str):
        return events.NOTICE, None
    parts = [title, update.get("description")]
    text = ": ".join(part for part in parts if isinstance(part, str) and part)
    severity = update.get("severity")
    return events.NOTICE, {"text": text} | ({"severity": severity} if severity else {})


def _compaction(update: Mapping[str, Any]) -> Read:
    status = str(update.get("status"))
    label = _COMPACTING.get(status, f"compaction {status.replace('_', ' ')}")
    return events.STATUS, {"phase": "working", "label": label}


def _compaction_summary(update: Mapping[str, Any]) -> Read:
    text = text_of(update.get("content"))
    return events.NOTICE, None if text is None else {"text": text}


_READERS: dict[str, Callable[[Mapping[str, Any]], Read]] = {
    "plan": _plan,
    "available_commands_update": _commands,
    "current_mode_update": _mode,
    "session_info_update": _session_info,
    "notice": _notice,
    "compaction_update": _compaction,
    "compaction_summary_chunk": _compaction_summary,
}
