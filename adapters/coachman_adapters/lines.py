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
from coachman_adapters.shortening import Shortener

LINE_LIMIT_BYTES = 64 * 1024 * 1024
# Decoded, a line takes many times its size. A longer one is shortened while it arrives.
WHOLE_BYTES = 1024 * 1024
PREVIEW_BYTES = 1024


@frozen
class Line:
    """One line without its ending. ``data`` is None where it was too long to keep.

    Where the span says ``cut``, ``data`` is what a `Shortener` made of the line.
    """

    span: Span
    data: bytes | None = field(repr=lambda data: f"<{len(data or b'')} bytes>")


class LineDecoder:
    """Splits a byte stream into lines of at most ``limit`` bytes.

    Of one of more than `WHOLE_BYTES` only what a `Shortener` keeps is in memory. One beyond the
    limit is let go; when it ends, its place and size are told by a `Line` without data.
    """

    def __init__(self, limit: int = LINE_LIMIT_BYTES) -> None:
        self._limit = limit
        self._start = 0
        self._size = 0
        self._held = bytearray()
        self._short: Shortener | None = None

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
        self._held += piece
        if self._size > WHOLE_BYTES or self._size > self._limit:
            self._shorten()

    def _shorten(self) -> None:
        """Take what is held to the short line; of one beyond the limit nothing is kept."""
        held, self._held = bytes(self._held), bytearray()
        if self._size > self._limit:
            self._short = None
            return
        self._short = self._short or Shortener()
        self._short.feed(held)

    def _end(self, piece: bytes, ending: int) -> Line:
        self._hold(piece)
        data = self._kept()
        span = Span(self._start, self._size, cut=data is None or self._short is not None)
        self._start += self._size + ending
        self._size, self._held, self._short = 0, bytearray(), None
        return Line(span, data)

    def _kept(self) -> bytes | None:
        if self._size > self._limit:
            return None
        if self._short is not None:
            return self._short.line
        return bytes(self._held).removesuffix(b"\r")

    def snapshot(self) -> dict[str, Any]:
        """What `restore` needs, as JSON values."""
        held = base64.b64encode(self._held).decode()
        short = self._short.snapshot() if self._short else None
        return {"start": self._start, "size": self._size, "held": held, "short": short}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue exactly where ``snapshot`` was taken."""
        self._start, self._size = snapshot["start"], snapshot["size"]
        self._held = bytearray(base64.b64decode(snapshot["held"]))
        short = snapshot.get("short")
        self._short = Shortener.restore(short) if short else None


def noise(line: Line) -> Event:
    """The event of a line that is not what the agent's wire promises.

    An over-long line has no ``text``: its place in the raw log is all there is.
    """
    members: dict[str, Any] = {"bytes": line.span.size}
    if line.data is not None:
        members["text"] = line.data[:PREVIEW_BYTES].decode("utf-8", "replace")
    return Event(NOISE, members, line.span)
