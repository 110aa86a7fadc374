"""The user's own proxy, where they have one: the gate goes through it as their programs do."""

from __future__ import annotations

import socket
from binascii import b2a_base64

from .addresses import spelled
from .heads import END, MAX_HEAD_BYTES
from .rules import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .addresses import Address

CONNECT_LIMIT_S = 20.0


class Upstream:
    """A proxy by ``host`` and ``port``, perhaps with a ``login``, and who is reached ``direct``."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._where: tuple[str, int] = (order["host"], order["port"])
        self._login: str | None = order.get("login")
        self._direct: tuple[str, ...] = tuple(order.get("direct", ()))

    def takes(self, host: str) -> bool:
        """Whether a name is reached through it. NO_PROXY names hosts, and what ends so."""
        for each in self._direct:
            name = each.lstrip("*.").partition(":")[0].lower()
            if each == "*" or (name and (host == name or host.endswith(f".{name}"))):
                return False
        return True

    def connect(self, host: str | Address, port: int) -> socket.socket:
        """A tunnel through it. Raises Unreachable."""
        try:
            connection = socket.create_connection(self._where, CONNECT_LIMIT_S)
        except OSError as error:
            raise Unreachable(f"cannot reach the proxy {self._where[0]}: {error}") from None
        try:
            connection.sendall(self._request(f"{spelled(host)}:{port}"))
            status = _status(connection)
        except OSError as error:
            connection.close()
            raise Unreachable(f"the proxy {self._where[0]} hung up: {error}") from None
        if status != b"200":
            connection.close()
            said = status.decode("ascii", "replace")
            raise Unreachable(f"the proxy {self._where[0]} answered {said} for {spelled(host)}")
        return connection

    def _request(self, place: str) -> bytes:
        lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
        if self._login:
            encoded = b2a_base64(self._login.encode(), newline=False).decode()
            lines.append(f"Proxy-Authorization: Basic {encoded}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _status(connection: socket.socket) -> bytes:
    """The status of the answer; what follows its head is the other end's."""
    data = b""
    while END not in data:
        # By the byte: nothing behind the head may be taken.
        byte = connection.recv(1)
        if not byte or len(data) > MAX_HEAD_BYTES:
            raise ConnectionError("no answer")
        data += byte
    return data[9:12]
