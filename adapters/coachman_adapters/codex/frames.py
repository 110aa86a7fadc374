"""The app server's frames: JSON-RPC without its name, one a line, the two sides' ids apart."""

from collections.abc import Mapping
from typing import Any

import msgspec

from coachman_adapters import jsonlines
from coachman_adapters.acp.frames import Frame, Notification, Request, RequestId, Response

METHOD_NOT_FOUND = -32601


def decode(line: bytes) -> Frame | None:
    """The frame that ``line`` holds, or None for noise."""
    message = jsonlines.decode(line)
    if message is None:
        return None
    method, number = message.get("method"), message.get("id")
    identified = isinstance(number, int | str) and not isinstance(number, bool)
    if isinstance(method, str):
        given = message.get("params")
        params = given if isinstance(given, dict) else {}
        return Request(number, method, params) if identified else Notification(method, params)
    if not identified:
        return None
    if message.get("error") is not None:
        return Response(number, None, _error(message["error"]))
    return Response(number, message["result"], None) if "result" in message else None


def _error(error: Any) -> dict[str, Any]:
    told = error if isinstance(error, dict) else {"message": error}
    return {**told, "message": str(told.get("message") or "an error without a message")}


def request(number: int, method: str, params: Mapping[str, Any]) -> bytes:
    return _line({"id": number, "method": method, "params": params})


def notification(method: str) -> bytes:
    return _line({"method": method})


def result(number: RequestId, value: Any) -> bytes:
    return _line({"id": number, "result": value})


def error(number: RequestId, code: int, message: str) -> bytes:
    return _line({"id": number, "error": {"code": code, "message": message}})


def _line(message: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(message) + b"\n"
