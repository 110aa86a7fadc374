"""What of a client's bytes goes on: one body, or a tunnel that begins as its policy says. Pure.

A filter is fed what the client sends and returns what may be passed; it raises Malformed or
Denied. ``one_answer``: the connection is over once its server has said all.
"""

from __future__ import annotations

import re

from .heads import Malformed
from .rules import Denied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .addresses import Address

MAX_HELLO_BYTES = 64 * 1024
MAX_CHUNK_LINE_BYTES = 1024
TLS_PORTS = frozenset({443, 8443})
HANDSHAKE, CLIENT_HELLO, SERVER_NAME = 22, 1, 0
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[^\r\n]*)?")


class Body:
    """A body of a known length, and nothing behind it."""

    one_answer = True

    def __init__(self, length: int) -> None:
        self._left = length

    def feed(self, data: bytes) -> bytes:
        if len(data) > self._left:
            raise Malformed("second_request")
        self._left -= len(data)
        return data


class Chunks:
    """A chunked body, and nothing behind it. Bytes pass once their place in it is known."""

    one_answer = True

    def __init__(self) -> None:
        self._line = b""
        self._left = 0
        self._state = "size"

    def feed(self, data: bytes) -> bytes:
        rest = data
        while rest:
            if self._state == "over":
                raise Malformed("second_request")
            rest = self._skip(rest) if self._left else self._read_line(rest)
        return data

    def _skip(self, data: bytes) -> bytes:
        taken = min(self._left, len(data))
        self._left -= taken
        return data[taken:]

    def _read_line(self, data: bytes) -> bytes:
        at = data.find(b"\n") + 1 or len(data)
        self._line += data[:at]
        if len(self._line) > MAX_CHUNK_LINE_BYTES:
            raise Malformed("bad_chunk")
        if self._line.endswith(b"\n"):
            if not self._line.endswith(b"\r\n") or b"\r" in self._line[:-2]:
                raise Malformed("bad_chunk")
            line, self._line = self._line[:-2], b""
            self._take_line(line)
        return data[at:]

    def _take_line(self, line: bytes) -> None:
        if self._state == "end":
            if line:
                raise Malformed("bad_chunk")
            self._state = "size"
        elif self._state == "trailer":
            self._state = "trailer" if line else "over"
        elif (found := _CHUNK.fullmatch(line)) is None:
            raise Malformed("bad_chunk")
        else:
            self._left = int(found[1], 16)
            self._state = "end" if self._left else "trailer"


class Tunnel:
    """Whatever a client says to ``host``: TLS names that host, and on TLS ports it is TLS."""

    one_answer = False

    def __init__(self, host: str | Address, port: int) -> None:
        self._host = host
        self._port = port
        self._begun = b""
        self._through = False

    def feed(self, data: bytes) -> bytes:
        if self._through:
            return data
        self._begun += data
        if self._begun[0] != HANDSHAKE:
            if self._port in TLS_PORTS:
                raise Denied("not_tls")
        elif not self._is_whole():
            if len(self._begun) > MAX_HELLO_BYTES:
                raise Denied("bad_hello")
            return b""
        self._through = True
        return self._begun

    def _is_whole(self) -> bool:
        """Whether the hello is there whole; then the name in it was checked."""
        hello = _handshake(self._begun)
        if len(hello) < 4 or len(hello) < 4 + int.from_bytes(hello[1:4], "big"):
            return False
        try:
            named = server_name(hello)
        except (IndexError, UnicodeDecodeError):
            raise Denied("bad_hello") from None
        wanted = self._host if isinstance(self._host, str) else None
        if named != wanted:
            raise Denied("other_server_name")
        return True


def _handshake(data: bytes) -> bytes:
    """The handshake's bytes of the whole TLS records in ``data``."""
    found = b""
    while len(data) >= 5:
        size = int.from_bytes(data[3:5], "big")
        if data[0] != HANDSHAKE or data[1] != 3 or size == 0:
            raise Denied("bad_hello")
        if len(data) < 5 + size:
            break
        found, data = found + data[5 : 5 + size], data[5 + size :]
    if found and found[0] != CLIENT_HELLO:
        raise Denied("bad_hello")
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        if size > len(self.data):
            raise IndexError
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def vector(self, size_bytes: int) -> bytes:
        return self.take(int.from_bytes(self.take(size_bytes), "big"))


def server_name(hello: bytes) -> str | None:
    """The name that a whole ClientHello asks for; None without one. Raises IndexError, Denied."""
    outer = _Reader(hello[4 : 4 + int.from_bytes(hello[1:4], "big")])
    outer.take(2 + 32)
    outer.vector(1)
    outer.vector(2)
    outer.vector(1)
    extensions = _Reader(outer.vector(2)) if outer.data else _Reader(b"")
    names: list[str] = []
    while extensions.data:
        kind, content = int.from_bytes(extensions.take(2), "big"), extensions.vector(2)
        if kind == SERVER_NAME:
            names += _names(_Reader(_Reader(content).vector(2)))
    if len(names) > 1:
        raise Denied("bad_hello")
    return names[0] if names else None


def _names(entries: _Reader) -> list[str]:
    found = []
    while entries.data:
        if entries.take(1) != b"\0":
            raise Denied("bad_hello")
        found.append(entries.vector(2).decode("ascii").lower().removesuffix("."))
    return found
