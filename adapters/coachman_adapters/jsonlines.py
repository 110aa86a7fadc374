"""One JSON object a line, as agents print it: between logs, and not always well-formed."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

MAX_DEPTH = 128
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
# A string that never ends is matched too, so that hostile lines cost linear time.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([{}\[\]])', re.DOTALL)
_LONE_BYTES = len(rb"\ud800")


def decode(line: bytes) -> dict[str, Any] | None:
    """The object that ``line`` holds; None for anything else, which is noise."""
    if not line[:64].lstrip().startswith(b"{"):
        return None
    message = _parse(line)
    if message is None:
        message = _parse(_repair(line))
    return message if isinstance(message, dict) else None


def _parse(line: bytes) -> Any:
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _depth(line) > MAX_DEPTH:
        return None
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def _depth(line: bytes) -> int:
    """How deep brackets nest, those in strings left out."""
    deepest = depth = 0
    for bracket in _brackets(line):
        depth += 1 if bracket in b"{[" else -1
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            break
    return deepest


def _brackets(line: bytes) -> Iterator[bytes]:
    return (match[1] for match in _TOKEN.finditer(line) if match[1])


def _repair(line: bytes) -> bytes:
    """``line`` with broken UTF-8 and lone surrogates replaced, as JavaScript agents send them."""
    text = line.decode("utf-8", "replace").encode()
    return _ESCAPE.sub(lambda m: rb"\ufffd" if len(m[0]) == _LONE_BYTES else m[0], text)
