"""What the model and its tools say, as events: pieces as they stream, whole blocks otherwise."""

from collections.abc import Iterator, Mapping
from typing import Any

from coachman_adapters import events, texts
from coachman_adapters.acp.tools import Tools
from coachman_adapters.claude import tools as calls
from coachman_adapters.claude.state import State
from coachman_adapters.conversation import Event, Span

_CHUNKS = {"text": events.MESSAGE_CHUNK, "thinking": events.THOUGHT_CHUNK}
_DELTAS = {"text_delta": "text", "thinking_delta": "thinking"}


def streamed(state: State, frame: Mapping[str, Any], span: Span) -> Iterator[Event]:
    """A piece of a message that is being made. What a subagent says is not the run's answer."""
    event = frame.get("event")
    if not isinstance(event, dict) or frame.get("parent_tool_use_id") is not None:
        return
    if event.get("type") == "message_start":
        message = event.get("message")
        state.message = _id(message) if isinstance(message, dict) else None
    delta = event.get("delta")
    if event.get("type") == "content_block_delta" and isinstance(delta, dict):
        kind = _DELTAS.get(str(delta.get("type")))
        if kind and isinstance(delta.get(kind), str) and delta[kind]:
            state.streamed[kind] = state.message or ""
            yield from _chunks(kind, delta[kind], state.message, span)


def assistant(state: State, tools: Tools, frame: Mapping[str, Any], span: Span) -> Iterator[Event]:
    """A whole block of a message. What was told in pieces is not told again."""
    message = frame.get("message")
    if not isinstance(message, dict):
        return
    error = frame.get("error")
    if frame.get("is_api_error_message") is True or isinstance(error, str):
        # The turn's end tells it as its error.
        state.api_error = error[: texts.SMALL_STRING_CHARS] if isinstance(error, str) else None
        return
    own, named = frame.get("parent_tool_use_id") is None, _id(message)
    for block in _blocks(message):
        kind = str(block.get("type"))
        if kind.endswith("tool_use"):
            yield from calls.used(tools, block, span)
        elif kind.endswith("tool_result"):
            yield from calls.returned(tools, block, span)
        elif own and kind in _CHUNKS and state.streamed.get(kind) != (named or ""):
            text = block.get(kind)
            yield from _chunks(kind, text, named, span) if isinstance(text, str) else ()


def user(tools: Tools, frame: Mapping[str, Any], span: Span) -> Iterator[Event]:
    """Results of tools, and what the CLI tells the model in the user's place."""
    message = frame.get("message")
    if not isinstance(message, dict):
        return
    for block in _blocks(message):
        if str(block.get("type")).endswith("tool_result"):
            yield from calls.returned(tools, block, span)
        elif frame.get("isSynthetic") is True and isinstance(block.get("text"), str):
            yield Event(events.NOTICE, texts.fit({"text": block["text"]}, span.size), span)


def _chunks(kind: str, text: str, message: str | None, span: Span) -> Iterator[Event]:
    named = {"message_id": message} if message else {}
    for piece in texts.pieces(text):
        yield Event(_CHUNKS[kind], {**named, "text": piece}, span)


def _id(message: Mapping[str, Any]) -> str | None:
    value = message.get("id")
    return value if texts.is_id(value) else None


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict)]
