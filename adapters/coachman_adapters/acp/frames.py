"""JSON-RPC frames on one line each: reading what agents send, writing what we send.

Agents print logs on stdout, also JSON ones, so a line counts as a frame only if it
is a JSON object of the protocol's shape; anything else is noise.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import frozen

from coachman_adapters import jsonlines

METHOD_NOT_FOUND = -32601
AUTH_REQUIRED = -32000

RequestId = int | str | None
_PLAIN_MEMBERS = frozenset({"id", "method", "params", "result", "error"})


@frozen
class Request:
    """The agent wants an answer."""

    id: RequestId
    method: str
    params: Mapping[str, Any]


@frozen
class Notification:
    """The agent tells."""

    method: str
    params: Mapping[str, Any]


@frozen
class Response:
    """The agent answers: exactly one of ``result`` and ``error`` counts."""

    id: RequestId
    result: Any
    error: Mapping[str, Any] | None


Frame = Request | Notification | Response


def decode(line: bytes) -> Frame | None:
    """The frame that ``line`` holds, or None for noise."""
    message = jsonlines.decode(line)
    return _classify(message) if message is not None and _is_protocol(message) else None


def _is_protocol(message: Mapping[str, Any]) -> bool:
    if "jsonrpc" in message:
        return bool(message["jsonrpc"] == "2.0")
    # Some agents leave the member out; then a log must not pass for an answer.
    return _PLAIN_MEMBERS.issuperset(message)


def _classify(message: Mapping[str, Any]) -> Frame | None:
    method, params = message.get("method"), message.get("params")
    if isinstance(method, str):
        params = params if isinstance(params, dict) else {}
        if "id" in message and _is_id(message["id"]):
            return Request(message["id"], method, params)
        return Notification(method, params)
    if "id" not in message or not _is_id(message["id"]):
        return None
    if message.get("error") is not None:
        return Response(message["id"], None, _error(message["error"]))
    return Response(message["id"], message["result"], None) if "result" in message else None


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, int | str) and not isinstance(value, bool))


def _error(error: Any) -> dict[str, Any]:
    """``error`` with a message in any case; code and data stay as they came."""
    if not isinstance(error, dict):
        return {"message": str(error)}
    return {**error, "message": str(error.get("message") or "an error without a message")}


def _line(message: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n"


def request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    return _line({"id": number, "method": method, "params": params})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    return _line({"method": method, "params": params})


def result(number: RequestId, value: Any) -> bytes:
    return _line({"id": number, "result": value})


def error(number: RequestId, code: int, message: str) -> bytes:
    return _line({"id": number, "error": {"code": code, "message": message}})
