"""A user's own proxy: the gate goes through it, and the agent learns nothing of it."""

import base64
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from coachman_sandbox.network import NetworkError, check_words, resolve
from coachmand.gate.rules import Denied, Rules, Unreachable
from coachmand.gate.upstream import Upstream
from coachmand.runs.preparing.gating import orders, upstream_of
from gated import decided, host_server, told_of
from keeper_attempts import Attempt

LOGIN = "me:hunter2secret"


class Proxy:
    """A proxy that leads every CONNECT to one port of this machine. ``heard``: heads so far."""

    def __init__(self, port: int) -> None:
        self.heard: list[str] = []
        self._port = port
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://{LOGIN}@127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._tunnel, args=(client,)))
            self._threads[-1].start()

    def close(self) -> None:
        """Take no more, and see the others off."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _tunnel(self, client: socket.socket) -> None:
        head = b""
        with client:
            while b"\r\n\r\n" not in head:
                head += client.recv(1)
            self.heard.append(head.decode())
            if "refused.test" in self.heard[-1]:
                client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            with socket.create_connection(("127.0.0.1", self._port)) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """A proxy while the block runs."""
    proxy = Proxy(port)
    serving = threading.Thread(target=proxy.serve)
    serving.start()
    yield proxy
    proxy.close()
    serving.join()


@pytest.fixture
async def attempt() -> AsyncIterator[Attempt]:
    """An attempt's directory; no keeper is left behind."""
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as root:
        attempt = Attempt(Path(root) / "attempt")
        yield attempt
        attempt.kill_leftover()


async def test_the_gate_goes_through_the_users_proxy(attempt: Attempt) -> None:
    """With the user's login, which is nowhere inside; what the proxy refuses is told."""
    words = ("api.invalid:80", "refused.test:80")
    with host_server() as server, proxy_to(server.port) as proxy:
        network = resolve(check_words(words))
        told = told_of(*words)
        told["gate"] = orders(network, upstream_of({"https_proxy": proxy.url}))
        script = """
import os, urllib.request
print(urllib.request.urlopen("http://api.invalid/x", timeout=20).read().decode())
try:
    urllib.request.urlopen("http://refused.test/", timeout=20)
except Exception as error:
    print(error.code, error.read().decode().strip())
print("hunter2" in str(os.environ))
"""
        await attempt.python(script, **told)
        await attempt.exit()

    said = attempt.stream("stdout").decode().splitlines()
    assert said[0] == "heard "
    assert said[1].startswith("502 coachman's gate: the proxy 127.0.0.1 answered 403")
    assert said[2] == "False"
    assert server.heard == [("GET /x HTTP/1.1", "api.invalid")]
    encoded = base64.b64encode(LOGIN.encode()).decode()
    assert proxy.heard[0].startswith("CONNECT api.invalid:80 HTTP/1.1\r\n")
    assert all(f"Proxy-Authorization: Basic {encoded}\r\n" in head for head in proxy.heard)
    rows = [(d["host"], d["allowed"], d["reason"]) for d in decided(attempt.directory)]
    assert rows == [
        ("api.invalid", True, None),
        ("refused.test", True, None),
        ("refused.test", True, "unreachable"),
    ]


def rules(*, public: bool, **known: str) -> Rules:
    """Rules that name a.x and *.s behind a proxy, with a resolver that knows some."""

    def find(name: str, _port: int) -> list[Any]:
        if name not in known:
            raise Unreachable("unknown")
        return [ip_address(known[name])]

    destinations = [
        {"host": "a.x", "port": 443},
        {"host": "*.s", "port": 443},
        {"host": "10.0.0.7", "port": 443},
        {"host": "b.x", "port": 443, "address": "10.0.0.8"},
    ]
    upstream = Upstream({"host": "proxy.x", "port": 3128, "direct": ["*.direct.s", "c.s:443"]})
    return Rules({"public": public, "destinations": destinations}, find, lambda _: False, upstream)


THROUGH: list[tuple[Rules, Any, list[str] | str]] = [
    # An empty list of places: whoever the proxy takes for it.
    (rules(public=False), "a.x", []),
    (rules(public=False, **{"a.x": "1.1.1.1"}), "a.x", []),
    (rules(public=False, **{"a.x": "127.0.0.1"}), "a.x", "resolves_not_public"),
    (rules(public=False, **{"c.s": "1.1.1.1", "d.s": "1.1.1.2"}), "d.s", []),
    (rules(public=False, **{"c.s": "1.1.1.1"}), "c.s", ["1.1.1.1"]),
    (rules(public=False, **{"e.direct.s": "1.1.1.1"}), "e.direct.s", ["1.1.1.1"]),
    (rules(public=False), "d.s", "unresolved"),
    (rules(public=True), "intranet", "unresolved"),
    (rules(public=True, intranet="10.0.0.1"), "intranet", "resolves_not_public"),
    (rules(public=True), ip_address("1.1.1.1"), []),
    (rules(public=True), ip_address("10.0.0.1"), "not_public"),
    (rules(public=True), ip_address("10.0.0.7"), ["10.0.0.7"]),
    (rules(public=False), "b.x", ["10.0.0.8"]),
]


@pytest.mark.parametrize(("made", "host", "expected"), THROUGH)
def test_a_proxy_is_trusted_with_named_hosts_only(
    made: Rules, host: Any, expected: list[str] | str
) -> None:
    """What this machine cannot resolve goes to it where the policy has the very name."""
    if isinstance(expected, str):
        with pytest.raises(Denied, match=f"^{expected}$"):
            made.places(host, 443)
        return
    assert list(map(str, made.places(host, 443))) == expected


@pytest.mark.parametrize(
    ("environment", "order"),
    [
        ({}, None),
        ({"https_proxy": ""}, None),
        ({"HTTPS_PROXY": "proxy.x"}, ("proxy.x", 80, None)),
        ({"ALL_PROXY": "http://u%40x:p%3A@proxy.x:3128/"}, ("proxy.x", 3128, "u@x:p:")),
        ({"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:2"}, ("a", 1, None)),
    ],
)
def test_the_users_proxy_is_found(
    environment: dict[str, str], order: tuple[str, int, str | None] | None
) -> None:
    """By the names and in the forms that programs take it from."""
    found = upstream_of({**environment, "no_proxy": "a.x, .b.x"})
    if order is None:
        assert found is None
    else:
        host, port, login = order
        direct = ["a.x", ".b.x"]
        assert found == {"host": host, "port": port, "login": login, "direct": direct}


@pytest.mark.parametrize("url", ["socks5://p:1", "https://p:1", "http://:1", "http://p:x"])
def test_a_proxy_that_cannot_be_spoken_to_is_refused(url: str) -> None:
    """Rather than gone around without a word."""
    with pytest.raises(NetworkError, match="cannot be gone through"):
        upstream_of({"https_proxy": url})
