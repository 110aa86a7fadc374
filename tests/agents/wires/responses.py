"""OpenAI Responses, with function calls and the ``apply_patch`` tool that takes plain text.

A function's name may begin with its namespace and a dot.
"""

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from model_script import CACHED_TOKENS, Asked, Message, Reply, Tool, call_id, dumps, text_of

RESPONSE = "resp_1"
PATCH = "apply_patch"
# The tool's own grammar is a patch; the script only knows of paths and contents.
PATCH_SCHEMA = {"properties": {"path": {}, "content": {}}, "required": ["path", "content"]}
CALLS = ("function_call", "custom_tool_call")


def takes(path: str) -> bool:
    return path.endswith("/responses")


def read(path: str, body: Mapping[str, Any]) -> Asked:
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages = [_message(item) for item in items if item.get("type") != "reasoning"]
    tools = tuple(tool for each in body.get("tools") or [] for tool in _tools(each))
    title = _form(body) == {"title"}
    return Asked(tuple(messages), tools, body.get("model"), bool(body.get("stream")), title)


def _form(body: Mapping[str, Any]) -> set[str]:
    """The members of the object that the answer is to be."""
    form = (body.get("text") or {}).get("format") or {}
    return set((form.get("schema") or {}).get("properties") or {})


def _message(item: Mapping[str, Any]) -> Message:
    kind = str(item.get("type") or "message")
    if kind == "message":
        role = str(item.get("role"))
        return Message("system" if role == "developer" else role, text_of(item.get("content")))
    return Message("assistant") if kind in CALLS else Message("tool", text_of(item.get("output")))


def _tools(tool: Mapping[str, Any]) -> Iterator[Tool]:
    if tool.get("type") == "function":
        yield Tool(tool["name"], tool.get("parameters") or {})
    elif tool.get("type") == "custom" and tool["name"] == PATCH:
        yield Tool(PATCH, PATCH_SCHEMA)


def usage(reply: Reply) -> dict[str, Any]:
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


def whole(asked: Asked, reply: Reply) -> dict[str, Any]:
    return _ended(asked, reply, _items(reply))


def _ended(asked: Asked, reply: Reply, items: list[dict[str, Any]]) -> dict[str, Any]:
    told = {"output": items, "usage": usage(reply)}
    if reply.stop_reason is None:
        return _response(asked, "completed", **told)
    details = {"reason": reply.stop_reason}
    return _response(asked, "incomplete", incomplete_details=details, **told)


def stream(asked: Asked, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    numbers = itertools.count()

    def event(kind: str, pauses: bool = False, **members: Any) -> tuple[bytes, bool]:
        told = {"type": kind, "sequence_number": next(numbers), **members}
        return b"event: " + kind.encode() + b"\ndata: " + dumps(told) + b"\n\n", pauses

    yield event("response.created", response=_response(asked, "in_progress"))
    if reply.broken:
        failure = {"code": "server_error", "message": reply.text}
        yield event("response.failed", response=_response(asked, "failed", error=failure))
        return
    items = _items(reply)
    for index, item in enumerate(items):
        place: dict[str, Any] = {"output_index": index}
        yield event("response.output_item.added", **place, item=_begun(item))
        for kind, part in _pieces(item, reply):
            yield event(kind, kind.endswith("text.delta"), **place, item_id=item["id"], **part)
        yield event("response.output_item.done", **place, item=item)
    last = _ended(asked, reply, items)
    yield event(f"response.{last['status']}", response=last)


def error(reply: Reply) -> tuple[dict[str, str], dict[str, Any]]:
    told: dict[str, Any] = {"message": reply.text, "type": "scripted", "code": str(reply.status)}
    if reply.retry_after_s is None:
        return {}, {"error": told}
    resets = int(time.time()) + reply.retry_after_s
    told |= {"type": "usage_limit_reached", "plan_type": "plus", "resets_at": resets}
    headers = {"retry-after": str(reply.retry_after_s)}
    return headers, {"error": {**told, "resets_in_seconds": reply.retry_after_s}}


def _response(asked: Asked, status: str, **members: Any) -> dict[str, Any]:
    begun = {"id": RESPONSE, "object": "response", "created_at": 1, "model": asked.model}
    return {**begun, "status": status, "output": [], "usage": None, "error": None, **members}


def _items(reply: Reply) -> list[dict[str, Any]]:
    thought = [{"type": "summary_text", "text": reply.thought}]
    begun = {"type": "reasoning", "id": f"rs_{call_id()}", "summary": thought}
    items = [begun] if reply.thought else []
    return [*items, _call(*reply.call) if reply.call else _said(reply.text)]


def _said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{call_id()}", "role": "assistant", "content": content}


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    call = call_id()
    item = {"id": f"fc_{call}", "call_id": call, "status": "completed"}
    if name != PATCH:
        namespace, dot, own = name.rpartition(".")
        named = {"name": own, **({"namespace": namespace} if dot else {})}
        return {"type": "function_call", **item, **named, "arguments": json.dumps(arguments)}
    lines = [f"+{line}" for line in arguments["content"].splitlines()]
    patch = ["*** Begin Patch", f"*** Add File: {arguments['path']}", *lines, "*** End Patch"]
    return {"type": "custom_tool_call", **item, "name": name, "input": "\n".join(patch) + "\n"}


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    """``item`` before its content came."""
    empty = {"summary": [], "content": [], "arguments": "", "input": ""}
    return {**item, **{name: value for name, value in empty.items() if name in item}}


def _pieces(item: Mapping[str, Any], reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = item["type"]
    if kind == "reasoning":
        place, part = {"summary_index": 0}, {"type": "summary_text", "text": ""}
        yield "response.reasoning_summary_part.added", {**place, "part": part}
        yield "response.reasoning_summary_text.delta", {**place, "delta": reply.thought}
    elif kind == "message":
        for word in reply.words():
            yield "response.output_text.delta", {"content_index": 0, "delta": word}
    elif kind == "function_call":
        yield "response.function_call_arguments.delta", {"delta": item["arguments"]}
    else:
        yield "response.custom_tool_call_input.delta", {"delta": item["input"]}
