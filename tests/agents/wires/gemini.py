"""Google's Gemini API: generateContent, whole and streamed."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from model_script import CACHED_TOKENS, Asked, Message, Reply, Tool, dumps

PATH = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent)$")
ROLES = {"user": "user", "model": "assistant"}
STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}
STATUSES |= {404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def takes(path: str) -> bool:
    return PATH.search(path) is not None


def read(path: str, body: Mapping[str, Any]) -> Asked:
    named = PATH.search(path)
    assert named is not None
    messages = tuple(_message(content) for content in body["contents"])
    tools = tuple(
        Tool(each["name"], each.get("parametersJsonSchema") or each.get("parameters") or {})
        for tool in body.get("tools") or []
        for each in tool.get("functionDeclarations") or []
    )
    return Asked(messages, tools, named[1], named[2].startswith("stream"), title=not tools)


def usage(reply: Reply) -> dict[str, Any]:
    return {
        "promptTokenCount": reply.input_tokens,
        "cachedContentTokenCount": CACHED_TOKENS,
        "candidatesTokenCount": reply.output_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }


def whole(asked: Asked, reply: Reply) -> dict[str, Any]:
    return _frame(asked, [part for parts in _parts(reply) for part in parts], reply)


def stream(asked: Asked, reply: Reply) -> Iterator[tuple[bytes, bool]]:
    for parts in _parts(reply):
        pauses = any("text" in part and "thought" not in part for part in parts)
        yield _event(_frame(asked, parts)), pauses
    yield _event(_frame(asked, [], reply)), False


def error(reply: Reply) -> tuple[dict[str, str], dict[str, Any]]:
    told: dict[str, Any] = {"code": reply.status, "message": reply.text}
    told["status"] = STATUSES.get(reply.status, "INTERNAL")
    if reply.retry_after_s:
        told["details"] = [{"@type": RETRY_INFO, "retryDelay": f"{reply.retry_after_s}s"}]
    return {}, {"error": told}


def _message(content: Mapping[str, Any]) -> Message:
    """A content; what its parts answer to the model's calls is no word of the user's."""
    parts = content.get("parts") or []
    if any("functionResponse" in part for part in parts):
        return Message("tool")
    said = [part["text"] for part in parts if "text" in part and not part.get("thought")]
    return Message(ROLES.get(content.get("role", "user"), "user"), "\n".join(said))


def _parts(reply: Reply) -> Iterator[list[dict[str, Any]]]:
    """The answer's parts, in the pieces in which they are streamed."""
    if reply.thought:
        yield [{"text": f"**Thinking** {reply.thought}", "thought": True}]
    if reply.call:
        name, arguments = reply.call
        yield [{"functionCall": {"name": name, "args": arguments}}]
        return
    for word in reply.words():
        yield [{"text": word}]


def _frame(asked: Asked, parts: list[dict[str, Any]], reply: Reply | None = None) -> dict[str, Any]:
    """One response; the last one, which has ``reply``, counts the tokens."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    frame = {"candidates": [candidate], "modelVersion": asked.model, "responseId": "response-1"}
    if reply is not None:
        candidate["finishReason"] = "STOP"
        frame["usageMetadata"] = usage(reply)
    return frame


def _event(frame: Mapping[str, Any]) -> bytes:
    return b"data: " + dumps(frame) + b"\r\n\r\n"
