"""Thread items as events, in the app server's spelling; `exec` items are respelled first.

An item is told when it begins, and again with what came of it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coachman_adapters import events, texts
from coachman_adapters.acp.tools import MAX_KNOWN, Tools
from coachman_adapters.codex.failures import notice, words
from coachman_adapters.codex.tools import described
from coachman_adapters.conversation import Event, Span

Item = Mapping[str, Any]

# Our own prompt, and what says nothing that other items do not say.
_IGNORED = frozenset(
    {
        "userMessage",
        "hookPrompt",
        "functionCallOutput",
        "subAgentActivity",
        "enteredReviewMode",
        "exitedReviewMode",
    }
)
_UNDERSCORE = re.compile(r"_([a-z])")


def respelled(item: Item) -> dict[str, Any]:
    """An item of ``codex exec --json`` as the app server would tell it."""
    told = {_camel(name): value for name, value in item.items()}
    for name in ("type", "status"):
        if isinstance(told.get(name), str):
            told[name] = _camel(told[name])
    return told


def _camel(name: str) -> str:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


class Items:
    """Tells items. ``told``: how many characters of a text that is not over were told."""

    def __init__(self, tools: Tools, told: dict[str, int]) -> None:
        self._tools = tools
        self._told = told

    def tell(self, item: Item, done: bool, span: Span) -> list[Event]:
        """The events of an item that began, grew or, with ``done``, is over."""
        kind = str(item.get("type"))
        call = described(item, done)
        if call is not None:
            return self._tools.upsert(call, span)
        if kind in _IGNORED:
            return []
        reader = _SAID.get(kind)
        if reader is None:
            return [Event(events.UNKNOWN, texts.fit({"raw": dict(item)}, span.size), span)]
        return [*reader(self, item, span)] if done or kind == "todoList" else []

    def grow(self, kind: str, params: Mapping[str, Any], span: Span) -> Iterator[Event]:
        """The chunk of a delta."""
        item, text = params.get("itemId"), params.get("delta")
        if texts.is_id(item) and isinstance(text, str):
            if item in self._told or len(self._told) < MAX_KNOWN:
                self._told[item] = self._told.get(item, 0) + len(text)
            yield from _chunks(kind, item, text, span)

    def _said(self, item: Item, span: Span) -> Iterator[Event]:
        text, identity = item.get("text"), item.get("id")
        if texts.is_id(identity) and isinstance(text, str):
            rest = text[self._told.pop(identity, 0) :]
            yield from _chunks(events.MESSAGE_CHUNK, identity, rest, span)

    def _thought(self, item: Item, span: Span) -> Iterator[Event]:
        identity = item.get("id")
        if texts.is_id(identity) and not self._told.pop(identity, 0):
            text = item.get("text") or _joined(item.get("summary")) or _joined(item.get("content"))
            if isinstance(text, str):
                yield from _chunks(events.THOUGHT_CHUNK, identity, text, span)

    def _plan(self, item: Item, span: Span) -> Iterator[Event]:
        given = item.get("items")
        entries = [
            {"content": step["text"], "status": "completed" if step.get("completed") else "pending"}
            for step in (given if isinstance(given, list) else ())
            if isinstance(step, dict) and isinstance(step.get("text"), str)
        ]
        yield Event(events.PLAN, texts.fit({"entries": entries}, span.size), span)

    def _warned(self, item: Item, span: Span) -> Iterator[Event]:
        yield notice(words(item.get("message")), span, "warning")

    def _compacted(self, _item: Item, span: Span) -> Iterator[Event]:
        yield Event(events.STATUS, {"phase": "working", "label": "compacted the context"}, span)


_SAID: Mapping[str, Callable[[Items, Item, Span], Iterator[Event]]] = {
    "agentMessage": Items._said,
    "plan": Items._said,
    "reasoning": Items._thought,
    "todoList": Items._plan,
    "error": Items._warned,
    "contextCompaction": Items._compacted,
}


def _chunks(kind: str, identity: str, text: str, span: Span) -> Iterator[Event]:
    for piece in texts.pieces(text):
        yield Event(kind, {"message_id": identity, "text": piece}, span)


def _joined(parts: Any) -> str:
    found = parts if isinstance(parts, list) else []
    return "\n\n".join(part for part in found if isinstance(part, str))
