"""Anthropic Messages."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from model_script import CACHED_TOKENS, Asked, Message, Reply, Tool, call_id, directives, dumps
from model_script import text_of as text_of_parts

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
# What a client says by itself in the user's place.
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
SIGNATURE = "c2NyaXB0ZWQ="
Block = dict[str, Any]


def takes(path: str) -> bool:
    return path.endswith("/messages")


def read(path: str, body: Mapping[str, Any]) -> Asked:
    messages = tuple(
        read_message for message in body["messages"] for read_message in _messages(message)
    )
    tools = tuple(
        Tool(tool["name"], tool["input_schema"])
        for tool in body.get("tools") or []
        if "input_schema" in tool
    )
    system = text_of_parts(body.get("system"))
    # A title's or a probe's request; clients count neither.
    title = not tools and ("title" in system.lower() or body.get("max_tokens") == 1)
    return Asked(messages, tools, body.get("model"), bool(body.get("stream")), title)


def _messages(message: Mapping[str, Any]) -> Iterator[Message]:
    """A user's message may hold results of tools, and beside them what the user said next."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    results = [part for part in parts if part.get("type") == "tool_result"]
    text = text_of_parts(content)
    for result in results:
        yield Message("tool", text_of_parts(result.get("content")))
    if not results or directives(text):
        own = REMINDER.sub("", text).strip() or not text
        yield Message(str(message.get("role")) if own else "system", text)


def usage(reply: Reply) -> dict[str, Any]:
    return {
        "input_tokens": reply.input_tokens - CACHED_TOKENS,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED_TOKENS,
        "output_tokens": reply.output_tokens,
    }


def whole(asked: Asked, reply: Reply) -> dict[str, Any]:
    message = _frame(asked, reply)
    return message | {"content": _blocks(reply), "stop_reason": _stop_reason(reply)}


def stream(asked: Asked, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    begun = _frame(asked, reply)
    begun["usage"] = usage(reply) | {"output_tokens": 1}
    yield _event("message_start", message=begun), False
    if reply.broken:
        yield _event("error", error=error(reply)[1]["error"]), False
        return
    for index, block in enumerate(_blocks(reply)):
        empty, deltas = _pieces(block, reply)
        yield _event("content_block_start", index=index, content_block=empty), False
        for delta in deltas:
            text = delta["type"] == "text_delta"
            yield _event("content_block_delta", index=index, delta=delta), text
        yield _event("content_block_stop", index=index), False
    ended = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage=usage(reply)), False
    yield _event("message_stop"), False


def error(reply: Reply) -> tuple[dict[str, str], dict[str, Any]]:
    kind = ERROR_TYPES.get(reply.status, "api_error")
    told = {"type": "error", "error": {"type": kind, "message": reply.text}}
    if reply.retry_after_s is None:
        return {}, told
    headers = {
        "retry-after": str(reply.retry_after_s),
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-reset": str(int(time.time()) + reply.retry_after_s),
    }
    return headers, told


def _blocks(reply: Reply) -> list[Block]:
    """The whole content of the answer."""
    blocks: list[Block] = []
    if reply.thought:
        blocks.append({"type": "thinking", "thinking": reply.thought, "signature": SIGNATURE})
    if reply.call:
        name, arguments = reply.call
        given = call_id().replace("call_", "toolu_")
        blocks.append({"type": "tool_use", "id": given, "name": name, "input": arguments})
    elif reply.text:
        blocks.append({"type": "text", "text": reply.text})
    return blocks


def _pieces(block: Block, reply: Reply) -> tuple[Block, list[Block]]:
    """A block as it is begun, and the deltas that fill it."""
    if block["type"] == "text":
        return block | {"text": ""}, [{"type": "text_delta", "text": w} for w in reply.words()]
    if block["type"] == "thinking":
        deltas = [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
        return block | {"thinking": "", "signature": ""}, deltas
    text = json.dumps(block["input"])
    half = len(text) // 2
    halves = (text[:half], text[half:])
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in halves]
    return block | {"input": {}}, deltas


def _frame(asked: Asked, reply: Reply) -> dict[str, Any]:
    return {
        "id": call_id().replace("call_", "msg_"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage(reply),
    }


def _stop_reason(reply: Reply) -> str:
    return reply.stop_reason or ("tool_use" if reply.call else "end_turn")


def _event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + dumps({"type": kind, **members}) + b"\n\n"
