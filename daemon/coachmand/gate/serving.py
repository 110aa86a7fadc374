"""Serve the connections of one run: a thread each, for names are resolved with blocking calls."""

from __future__ import annotations

import socket
import threading

from . import connecting, filters
from .addresses import spelled
from .decisions import UNREACHABLE
from .heads import END, MAX_HEAD_BYTES, Malformed, parse_head
from .relaying import relay
from .rules import Denied, Rules, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .addresses import Address
    from .decisions import Decisions
    from .heads import Head
    from .relaying import Filter
    from .upstream import Upstream

    Serve = Callable[[socket.socket], None]

MAX_CONNECTIONS = 256
HEAD_LIMIT_S = 30.0
RECEIVE_BYTES = 16 * 1024
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
REFUSAL = (
    "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "X-Coachman-Gate: {reason}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{text}"
)


class Gate:
    """What a run's connections are answered with: `proxy` speaks HTTP, `pipe` goes to one place."""

    def __init__(
        self, rules: Rules, decisions: Decisions, upstream: Upstream | None = None
    ) -> None:
        self._rules = rules
        self._decisions = decisions
        self._upstream = upstream
        self._lock = threading.Lock()
        self._serving = 0

    @property
    def serves(self) -> bool:
        """Whether a connection is still being served."""
        return self._serving > 0

    @property
    def is_full(self) -> bool:
        """Whether others have to wait until one is through."""
        return self._serving >= MAX_CONNECTIONS

    def accept(self, listener: socket.socket, serve: Serve) -> None:
        """Serve whoever connects, in a thread."""
        try:
            client, _ = listener.accept()
        except OSError:
            return  # it hung up before
        client.setblocking(True)
        with self._lock:
            self._serving += 1
        threading.Thread(target=self._serve, args=(client, serve), daemon=True).start()

    def _serve(self, client: socket.socket, serve: Serve) -> None:
        try:
            with client:
                client.settimeout(HEAD_LIMIT_S)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                serve(client)
        except OSError:
            return  # whoever hung up is told nothing
        finally:
            with self._lock:
                self._serving -= 1

    def pipe(self, host: str | Address, port: int) -> Serve:
        """Serves one destination without a word: as if it listened inside itself."""

        def serve(client: socket.socket) -> None:
            try:
                server = self._connect(host, port)
            except (Denied, Unreachable):
                return
            with server:
                self._carry(client, server, filters.Tunnel(host, port), b"", (host, port))

        return serve

    def proxy(self, client: socket.socket) -> None:
        """Serve one request to the proxy."""
        try:
            data, rest = _head_of(client)
            head = parse_head(data)
        except Malformed as error:
            self._decisions.note(None, None, str(error))
            refuse(client, "400 Bad Request", str(error), "this request cannot be read in one way")
            return
        try:
            server = self._connect(head.host, head.port)
        except Denied as denied:
            text = f"{spelled(head.host)}:{head.port} is not allowed to this run"
            refuse(client, "403 Forbidden", str(denied), text)
        except Unreachable as error:
            refuse(client, "502 Bad Gateway", UNREACHABLE, str(error))
        else:
            with server:
                self._begin(client, server, head, rest)

    def _connect(self, host: str | Address, port: int) -> socket.socket:
        try:
            return self._reach(host, port)
        except Denied as denied:
            self._decisions.note(host, port, str(denied))
            raise
        except Unreachable as error:
            self._decisions.note(host, port, UNREACHABLE, str(error))
            raise

    def _reach(self, host: str | Address, port: int) -> socket.socket:
        addresses = self._rules.places(host, port)
        # Before it is connected to, which can take long.
        self._decisions.note(host, port)
        if not addresses and self._upstream is not None:
            return self._upstream.connect(host, port)
        return connecting.connect(addresses, port)

    def _begin(self, client: socket.socket, server: socket.socket, head: Head, rest: bytes) -> None:
        where = (head.host, head.port)
        if head.is_tunnel:
            client.sendall(ESTABLISHED)
            self._carry(client, server, filters.Tunnel(*where), rest, where)
            return
        server.sendall(head.passed)
        body: Filter
        if head.body == "chunked":
            body = filters.Chunks()
        else:
            body = filters.Body(head.body if isinstance(head.body, int) else 0)
        self._carry(client, server, body, rest, where)

    def _carry(
        self,
        client: socket.socket,
        server: socket.socket,
        filter: Filter,
        first: bytes,
        where: tuple[str | Address, int],
    ) -> None:
        try:
            relay(client, server, filter, first)
        except (Denied, Malformed) as refused:
            self._decisions.note(*where, str(refused))


def _head_of(client: socket.socket) -> tuple[bytes, bytes]:
    """A head with its empty line, and what came behind it. Raises Malformed, OSError."""
    data = b""
    while (end := data.find(END)) < 0:
        if len(data) > MAX_HEAD_BYTES:
            raise Malformed("head_too_long")
        chunk = client.recv(RECEIVE_BYTES)
        if not chunk:
            raise ConnectionError("no request")
        data += chunk
    return data[: end + len(END)], data[end + len(END) :]


def refuse(client: socket.socket, status: str, reason: str, text: str) -> None:
    """Say no, in a way that a client shows to whoever asks why."""
    text = f"coachman's gate: {text} ({reason})\n"
    answer = REFUSAL.format(status=status, reason=reason, size=len(text.encode()), text=text)
    client.sendall(answer.encode())
