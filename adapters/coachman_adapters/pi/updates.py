"""What pi tells while it works, as events. Nothing malformed ever fails a run."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from coachman_adapters import events, texts
from coachman_adapters.acp.tools import MAX_KNOWN, Tools
from coachman_adapters.conversation import Event, Span
from coachman_adapters.counting import count
from coachman_adapters.pi.state import State
from coachman_adapters.pi.tools import described, finished

Record = Mapping[str, Any]
# Snapshots of what was told piece by piece, and what concerns a terminal.
SILENT = frozenset(
    {
        "agent_end",
        "turn_start",
        "turn_end",
        "tool_execution_update",
        "queue_update",
        "entry_appended",
        "thinking_level_changed",
        "auto_retry_end",
        "summarization_retry_attempt_start",
        "summarization_retry_finished",
        "bash_execution_update",
    }
)
_CHUNKS = {"text_delta": events.MESSAGE_CHUNK, "thinking_delta": events.THOUGHT_CHUNK}
_BLOCKS = {"text": events.MESSAGE_CHUNK, "thinking": events.THOUGHT_CHUNK}
SECOND_MS = 1000


class Updates:
    """Tells records as events, and remembers in ``state`` what was told of a message."""

    def __init__(self, state: State, tools: Tools) -> None:
        self._state = state
        self._tools = tools

    def tell(self, record: Record, span: Span) -> list[Event]:
        """The events of one record; others are kept as they came."""
        kind = str(record.get("type"))
        if kind in SILENT:
            return []
        if kind == "message_update":
            return [*self._delta(record.get("assistantMessageEvent"), span)]
        if kind == "tool_execution_start":
            call, name = record.get("toolCallId"), record.get("toolName")
            return self._tools.upsert(described(call, name, record.get("args")), span)
        if kind == "tool_execution_end":
            return self._tools.upsert(finished(record), span)
        read = _READERS.get(kind)
        if read is None:
            return [unknown(record, span)]
        type_, members = read(record)
        return [Event(type_, texts.fit(members, span.size), span)] if members else []

    def begin(self) -> None:
        """A new answer of the model: pi's messages have no ids, so they are counted."""
        self._state.message += 1
        self._state.told = {}

    def complete(self, message: Record, span: Span) -> Iterator[Event]:
        """What the whole message has beyond its pieces: some providers do not stream."""
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            kind = _kind(block)
            text = block.get(kind) if kind in _BLOCKS else None
            if isinstance(text, str):
                rest = text[self._state.told.get(str(index), 0) :]
                yield from self._chunk(_BLOCKS[kind], index, rest, span)

    def _delta(self, update: Any, span: Span) -> Iterator[Event]:
        kind = _kind(update)
        delta = update.get("delta") if kind in _CHUNKS else None
        if isinstance(delta, str):
            yield from self._chunk(_CHUNKS[kind], update.get("contentIndex"), delta, span)

    def _chunk(self, type_: str, index: Any, text: str, span: Span) -> Iterator[Event]:
        state = self._state
        key = str(index)[:16]
        if key in state.told or len(state.told) < MAX_KNOWN:
            state.told[key] = state.told.get(key, 0) + len(text)
        for piece in texts.pieces(text):
            yield Event(type_, {"message_id": f"m{state.message}", "text": piece}, span)


def _kind(value: Any) -> str:
    return str(value.get("type")) if isinstance(value, dict) else ""


def unknown(raw: Record, span: Span) -> Event:
    """Something this version does not know, kept as it came."""
    return Event(events.UNKNOWN, texts.fit({"raw": dict(raw)}, span.size), span)


Read = tuple[str, dict[str, Any]]


def _retry(record: Record) -> Read:
    delay_ms = count(record.get("delayMs"))
    seconds = f" in {delay_ms / SECOND_MS:.0f} s" if delay_ms else ""
    label = f"trying again{seconds}: {record.get('errorMessage') or 'no reason given'}"
    return events.STATUS, {"phase": "working", "label": label}


def _compacting(record: Record) -> Read:
    return events.STATUS, {"phase": "working", "label": "compacting the context"}


def _compacted(record: Record) -> Read:
    failure = record.get("errorMessage")
    label = f"compaction failed: {failure}" if failure else "compaction completed"
    return events.STATUS, {"phase": "working", "label": label}


def _named(record: Record) -> Read:
    name = record.get("name")
    return events.NOTICE, {"text": f"session title: {name}"} if isinstance(name, str) else {}


def _extension_failed(record: Record) -> Read:
    text = f"an extension failed at {record.get('event')}: {record.get('error')}"
    return events.NOTICE, {"text": text, "severity": "error"}


_READERS: dict[str, Callable[[Record], Read]] = {
    "auto_retry_start": _retry,
    "summarization_retry_scheduled": _retry,
    "compaction_start": _compacting,
    "compaction_end": _compacted,
    "session_info_changed": _named,
    "extension_error": _extension_failed,
}
