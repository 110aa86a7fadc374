"""A real gate for tests: a sandbox with a namespace of its own, and servers outside of it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from coachman_sandbox.network import check_words, resolve
from coachmand.gate import LOG_NAME
from coachmand.runs.preparing.gating import orders, proxy_variables
from keeper_attempts import ROOT_READ_ONLY


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            self._answer(self._chunks())
        else:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body: bytes) -> None:
        server: Any = self.server
        server.heard.append((self.requestline, self.headers.get("Host")))
        answer = b"heard " + body
        # Whoever broke a rule is cut off.
        with suppress(ConnectionError):
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


class HostServer:
    """An HTTP server of the host; ``heard`` has the request line and the Host of each request."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._server: Any = ThreadingHTTPServer((address, 0), _Handler)
        self._server.heard = self.heard = []
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> "HostServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def gate_for(*words: str) -> dict[str, Any]:
    """The launch record's members for a network."""
    return {"gate": orders(resolve(check_words(words)))}


def told_of(*words: str) -> dict[str, Any]:
    """Likewise, with the variables of that network inside."""
    told = proxy_variables(resolve(check_words(words)))
    args = [word for name, value in told.items() for word in ("--setenv", name, value)]
    return {**gate_for(*words), "args": [*ROOT_READ_ONLY, *args]}


def decided(directory: Path) -> list[dict[str, Any]]:
    """What the gate wrote down, the last line of each destination."""
    path = directory / LOG_NAME
    lines = path.read_text().splitlines() if path.exists() else []
    last = {}
    for line in map(json.loads, lines):
        last[line["host"], line["port"], line["reason"]] = line
    return list(last.values())


@contextmanager
def host_server(address: str = "127.0.0.1") -> Iterator[HostServer]:
    """A server while the block runs."""
    with HostServer(address) as server:
        yield server
