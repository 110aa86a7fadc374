"""One connection of a peer: bytes in, messages out of them; answers in, bytes out."""

from __future__ import annotations

import json
import os

from . import MAX_BODY_BYTES
from .errors import Garbage
from .files import CHUNK_BYTES, encode, read_some

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_LINE_BYTES = 64 * 1024
# A peer with this much unread stops being read itself, so that its buffer stays bounded.
OUT_PAUSE_BYTES = 64 * 1024


class Connection:
    """A peer's connection. `fd` is -1 once it was dropped; `told` are the sizes told last."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.out = bytearray()
        self.told: tuple[int, int] | None = None
        self._received = bytearray()
        self._head: dict[str, Any] | None = None

    @property
    def paused(self) -> bool:
        return len(self.out) >= OUT_PAUSE_BYTES

    def receive(self) -> bool:
        """Take in what arrived; False at the connection's end."""
        try:
            chunk = read_some(self.fd)
        except OSError:
            return False
        self._received += chunk or b""
        return chunk is None or bool(chunk)

    def next_message(self) -> tuple[dict[str, Any], bytes] | None:
        """The next whole message and its bytes. Raises Garbage."""
        if self._head is None:
            end = self._received.find(b"\n")
            if (len(self._received) if end < 0 else end) > MAX_LINE_BYTES:
                raise Garbage(f"a line exceeds {MAX_LINE_BYTES} bytes")
            if end < 0:
                return None
            self._head = parse_head(bytes(self._received[:end]))
            del self._received[: end + 1]
        size = self._head.get("size", 0)
        if len(self._received) < size:
            return None
        message, self._head = self._head, None
        body = bytes(self._received[:size])
        del self._received[:size]
        return message, body

    def send(self, message: dict[str, Any]) -> None:
        self.out += encode(message)

    def flush(self) -> bool:
        """Write what the peer takes now; False when it is gone."""
        try:
            while self.out:
                del self.out[: os.write(self.fd, self.out[:CHUNK_BYTES])]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


def parse_head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        raise Garbage("a line is not JSON") from None
    if not isinstance(head, dict) or not isinstance(head.get("op"), str):
        raise Garbage("a message is not an object with an `op`")
    if not isinstance(head.get("id"), (int, str, type(None))):
        raise Garbage("an `id` is neither a number nor a string")
    size = head.get("size", 0)
    if not isinstance(size, int) or not 0 <= size <= MAX_BODY_BYTES:
        raise Garbage(f"`size` is not a number from 0 to {MAX_BODY_BYTES}")
    return head
