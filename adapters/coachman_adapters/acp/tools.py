"""Tool calls by id: an agent may first name one in a call, an update or a question."""

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from coachman_adapters import events, texts
from coachman_adapters.conversation import Event, Span

# So many are remembered; an update of one before them is told as a new call.
MAX_KNOWN = 512
FINAL = frozenset({"completed", "failed", "cancelled"})
_BRIEF_CHARS = 4096
_BRIEF = ("name", "kind", "title", "status")
_WIRE_NAMES = {
    "name": "name",
    "kind": "kind",
    "title": "title",
    "status": "status",
    "rawInput": "input",
    "locations": "locations",
}


class Tools:
    """The tool calls of one conversation. ``known`` is JSON: id to the members last told."""

    def __init__(self, known: dict[str, dict[str, Any]], title_is_name: bool = False) -> None:
        self.known = known
        self._title_is_name = title_is_name

    def __repr__(self) -> str:
        return f"<Tools {len(self.known)} known, {len(self.unfinished())} open>"

    def unfinished(self) -> list[str]:
        return [call for call, told in self.known.items() if told.get("status") not in FINAL]

    def upsert(self, given: Mapping[str, Any], span: Span) -> list[Event]:
        """The event that tells ``given``, a tool call or an update of one."""
        call = given.get("toolCallId")
        if not texts.is_id(call):
            return [Event(events.UNKNOWN, texts.fit({"raw": dict(given)}, span.size), span)]
        members = _members(given)
        if call not in self.known:
            return [self._announce(call, members, span)]
        changed = self._changes(call, members)
        if not changed:
            return []
        members = texts.fit({"tool_call_id": call, **changed}, span.size)
        return [Event(events.TOOL_UPDATE, members, span)]

    def asked(self, given: Mapping[str, Any], span: Span) -> tuple[list[Event], dict[str, Any]]:
        """What a question tells anew, and the whole tool call it is about."""
        told = {name: value for name, value in given.items() if name != "status"}
        events_ = self.upsert(told, span)
        call = given.get("toolCallId")
        known = self.known.get(call, {}) if texts.is_id(call) else {}
        brief = {name: known[name] for name in _BRIEF if name in known}
        tool = {**brief, **_members(given)}
        return events_, texts.fit({"tool_call_id": call if known else None, **tool})

    def begin(self, call: str) -> list[Event]:
        """Mark one that was allowed to go on."""
        if self.known.get(call, {}).get("status") != "pending":
            return []
        self.known[call]["status"] = "in_progress"
        return [Event(events.TOOL_UPDATE, {"tool_call_id": call, "status": "in_progress"})]

    def close(self, status: str) -> list[Event]:
        """Mark what is still open; an update of the agent's may yet say otherwise."""
        return [event for call in self.unfinished() for event in self.end(call, status)]

    def end(self, call: str, status: str) -> list[Event]:
        """Mark one that is over."""
        told = self.known.get(call)
        if told is None or told.get("status") in FINAL:
            return []
        told["status"] = status
        return [Event(events.TOOL_UPDATE, {"tool_call_id": call, "status": status})]

    def _announce(self, call: str, members: dict[str, Any], span: Span) -> Event:
        if self._title_is_name and "title" in members:
            members.setdefault("name", members["title"])
        defaults = {"kind": "other", "title": members.get("name", "tool"), "status": "pending"}
        members = defaults | members
        self.known[call] = _marks(members)
        self._forget()
        members = {"tool_call_id": call, **members}
        return Event(events.TOOL_CALL, texts.fit(members, span.size), span)

    def _forget(self) -> None:
        """The oldest that are over go first, so that no agent makes this grow without a bound."""
        while len(self.known) > MAX_KNOWN:
            over = (call for call, told in self.known.items() if told.get("status") in FINAL)
            del self.known[next(over, next(iter(self.known)))]

    def _changes(self, call: str, members: dict[str, Any]) -> dict[str, Any]:
        told = self.known[call]
        marks = _marks(members)
        changed = {name: members[name] for name, mark in marks.items() if told.get(name) != mark}
        told.update(marks)
        return changed


def _marks(members: Mapping[str, Any]) -> dict[str, Any]:
    """What is remembered of ``members``: the short ones, and checksums of the long."""
    return {
        name: value[:_BRIEF_CHARS] if name in _BRIEF else zlib.crc32(msgspec.json.encode(value))
        for name, value in members.items()
    }


def _members(given: Mapping[str, Any]) -> dict[str, Any]:
    """Our members of a wire tool call: only what it says."""
    members = {
        ours: given[wire]
        for wire, ours in _WIRE_NAMES.items()
        if given.get(wire) is not None and _is_sound(wire, given[wire])
    }
    content = given.get("content")
    listed = content if isinstance(content, list) else []
    items = [item for item in listed if isinstance(item, dict)]
    output = given.get("rawOutput")
    if output is None:
        output = _output(items)
    if output is not None:
        members["output"] = output
    shown = [item for item in items if item.get("type") != "content"]
    return members | ({"content": shown} if shown else {})


def _is_sound(wire: str, value: Any) -> bool:
    if wire == "rawInput":
        return value not in ({}, [])
    wanted = list if wire == "locations" else str
    return isinstance(value, wanted) and len(value) > 0


def _output(items: list[dict[str, Any]]) -> str | None:
    """The text of what a tool shows, where it reports no output of its own."""
    blocks = [item.get("content") for item in items if item.get("type") == "content"]
    found = [block["text"] for block in blocks if isinstance(block, dict) and "text" in block]
    return "\n".join(str(text) for text in found) if found else None
