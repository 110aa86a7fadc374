"""Bytes in, lines out, however the bytes were chunked.

Offsets are absolute in the stream. Only ``\\n`` ends a line (U+2028 and its kin
are content); one ``\\r`` before it is dropped.
"""

import base64
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from coachman_adapters.conversation import Event, Span
from coachman_adapters.events import NOISE

LINE_LIMIT_BYTES = 64 * 1024 * 1024
PREVIEW_BYTES = 1024


@frozen
class Line:
    """One line without its ending. ``data`` is None where it was too long to keep."""

    span: Span
    data: bytes | None = field(repr=lambda data: f"<{len(data or b'')} bytes>")


class LineDecoder:
    """Splits a byte stream into lines of at most ``limit`` bytes.

    A longer line is let go from memory as soon as it passes the limit; when it ends,
    its place and size are told by a `Line` without data.
    """

    def __init__(self, limit: int = LINE_LIMIT_BYTES) -> None:
        self._limit = limit
        self._start = 0
        self._size = 0
        self._parts: list[bytes] = []

    def __repr__(self) -> str:
        return f"<LineDecoder at {self._start}, {self._size} bytes held>"

    def feed(self, data: bytes) -> list[Line]:
        """The lines that ``data`` completes."""
        *ended, rest = data.split(b"\n")
        lines = [self._end(piece, 1) for piece in ended]
        self._hold(rest)
        return lines

    def finish(self) -> list[Line]:
        """The unterminated last line, if there is one."""
        return [self._end(b"", 0)] if self._size else []

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._parts.clear()
        elif piece:
            self._parts.append(piece)

    def _end(self, piece: bytes, ending: int) -> Line:
        self._hold(piece)
        kept = self._size <= self._limit
        data = b"".join(self._parts).removesuffix(b"\r") if kept else None
        span = Span(self._start, self._size)
        self._start += self._size + ending
        self._size = 0
        self._parts.clear()
        return Line(span, data)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` needs, as JSON values."""
        held = base64.b64encode(b"".join(self._parts)).decode()
        return {"start": self._start, "size": self._size, "held": held}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue exactly where ``snapshot`` was taken."""
        self._start, self._size = snapshot["start"], snapshot["size"]
        held = base64.b64decode(snapshot["held"])
        self._parts = [held] if held else []


def noise(line: Line) -> Event:
    """The event of a line that is not what the agent's wire promises.

    An over-long line has no ``text``: its place in the raw log is all there is.
    """
    members: dict[str, Any] = {"bytes": line.span.size}
    if line.data is not None:
        members["text"] = line.data[:PREVIEW_BYTES].decode("utf-8", "replace")
    return Event(NOISE, members, line.span)
