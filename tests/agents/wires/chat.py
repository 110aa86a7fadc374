"""OpenAI Chat Completions."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from model_script import CACHED_TOKENS, Asked, Message, Reply, Tool, call_id, dumps, text_of


def takes(path: str) -> bool:
    return path.endswith("/chat/completions")


def read(path: str, body: Mapping[str, Any]) -> Asked:
    messages = tuple(
        Message(str(message.get("role")), text_of(message.get("content")))
        for message in body["messages"]
    )
    functions = [tool.get("function", {}) for tool in body.get("tools") or []]
    tools = tuple(Tool(each.get("name"), each.get("parameters", {})) for each in functions)
    system = [message.text for message in messages if message.role == "system"]
    title = not tools and any("title" in text.lower() for text in system)
    return Asked(messages, tools, body.get("model"), bool(body.get("stream")), title)


def usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
    }


def whole(asked: Asked, reply: Reply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.thought:
        message["reasoning_content"] = reply.thought
    if reply.call:
        message["tool_calls"] = [_call(reply)]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    return _frame(asked, "chat.completion", [choice], usage(reply))


def stream(asked: Asked, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    if reply.broken:
        yield b"data: " + dumps(error(reply)[1]) + b"\n\n", False
        return
    for delta in _deltas(reply):
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield _event(asked, [choice], None), "content" in delta
    last = {"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}
    yield _event(asked, [last], None), False
    yield _event(asked, [], usage(reply)), False
    yield b"data: [DONE]\n\n", False


def error(reply: Reply) -> tuple[dict[str, str], dict[str, Any]]:
    headers = {"retry-after": str(reply.retry_after_s)} if reply.retry_after_s else {}
    told = {"message": reply.text, "type": "scripted", "code": str(reply.status)}
    return headers, {"error": told}


def _deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant"}
    if reply.thought:
        yield {"reasoning_content": reply.thought}
    if reply.call:
        yield {"tool_calls": [{"index": 0, **_call(reply)}]}
        return
    for word in reply.words():
        yield {"content": word}


def _call(reply: Reply) -> dict[str, Any]:
    assert reply.call is not None
    name, arguments = reply.call
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": call_id(), "type": "function", "function": function}


def _finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.call else "stop"


def _frame(asked: Asked, kind: str, choices: list[Any], counted: Any) -> dict[str, Any]:
    frame = {"id": "chatcmpl-1", "object": kind, "created": 1, "model": asked.model}
    return frame | {"choices": choices, "usage": counted}


def _event(asked: Asked, choices: list[Any], counted: Any) -> bytes:
    return b"data: " + dumps(_frame(asked, "chat.completion.chunk", choices, counted)) + b"\n\n"
