"""A real gate behind a real sandbox: what is reached from inside, and what is not."""

import os
import signal
import socket
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from coachmand.gate import LOG_NAME, main
from coachmand.gate.connecting import is_local
from coachmand.gate.decisions import Decisions
from coachmand.gate.rules import Rules
from coachmand.gate.serving import Gate
from gated import decided, host_server, told_of
from keeper_attempts import Attempt, Peer, any_alive, is_alive, until

# What the scripts inside share: each says in a word how it went.
INSIDE = """
import socket, sys, urllib.request
def fetch(url, data=None):
    try:
        return urllib.request.urlopen(url, data, timeout=20).read().decode()
    except Exception as error:
        return f"{type(error).__name__} {getattr(error, 'code', '')}".strip()
def plain(address, port, family=socket.AF_INET):
    try:
        made = socket.socket(family)
        made.settimeout(10)
        made.connect((address, port) if family != socket.AF_UNIX else address)
        return "connected"
    except OSError as error:
        return type(error).__name__
def raw(*parts):
    made = socket.create_connection(("127.0.0.1", 3128), 20)
    made.sendall(b"".join(parts))
    made.shutdown(socket.SHUT_WR)
    found = b""
    try:
        while chunk := made.recv(4096):
            found += chunk
    except ConnectionError:
        pass
    return found.decode("latin-1")
def status(*parts):
    return raw(*parts).split("\\r\\n")[0][9:12]
"""


@pytest.fixture
async def attempt() -> AsyncIterator[Attempt]:
    """An attempt's directory; no keeper is left behind."""
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as root:
        attempt = Attempt(Path(root) / "attempt")
        yield attempt
        attempt.kill_leftover()


async def said(attempt: Attempt, script: str, *words: str) -> list[str]:
    """The lines that a script prints behind that network."""
    await attempt.python(INSIDE + script, **told_of(*words))
    record = await attempt.exit()
    assert record.get("error") is None
    assert record["exit_code"] == 0, attempt.stream("stderr").decode()
    return attempt.stream("stdout").decode().splitlines()


def rows(attempt: Attempt) -> list[tuple[Any, ...]]:
    """What was decided, in its order."""
    return [(d["host"], d["port"], d["reason"], d["count"]) for d in decided(attempt.directory)]


def own_address() -> str:
    """An address of this machine that others see; nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("8.8.8.8", 9))
        return str(probe.getsockname()[0])


async def test_a_named_service_is_reached_and_no_other(attempt: Attempt) -> None:
    """By the proxy and at its own address; another port of the same machine by neither."""
    with host_server() as named, host_server() as other:
        told = await said(
            attempt,
            f"""
print(fetch("http://127.0.0.1:{named.port}/direct"))
print(fetch("http://model.test:{named.port}/proxy", b"body"))
print(fetch("http://127.0.0.1:{other.port}/"))
print(fetch("http://model.test:{other.port}/"), fetch("http://model.test:{other.port}/"))
""",
            f"127.0.0.1:{named.port}",
            f"model.test:{named.port}=127.0.0.1",
        )

    assert told == ["heard ", "heard body", "URLError", "HTTPError 403 HTTPError 403"]
    assert named.heard == [
        ("GET /direct HTTP/1.1", f"127.0.0.1:{named.port}"),
        ("POST /proxy HTTP/1.1", f"model.test:{named.port}"),
    ]
    assert other.heard == []
    assert rows(attempt) == [
        ("127.0.0.1", named.port, None, 1),
        ("model.test", named.port, None, 1),
        ("model.test", other.port, "not_allowed", 2),
    ]


async def test_nothing_of_the_machine_is_there(attempt: Attempt) -> None:
    """Loopback, its own addresses, link-local, metadata, DNS and abstract sockets: none answers."""
    with host_server("0.0.0.0") as server, socket.socket(socket.AF_UNIX) as abstract:
        name = f"coachman-test-{os.getpid()}-{server.port}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        told = await said(
            attempt,
            f"""
for address in ("127.0.0.1", "{own_address()}", "169.254.169.254", "1.1.1.1", "10.0.0.1"):
    print(plain(address, {server.port}))
print(plain("::1", {server.port}, socket.AF_INET6))
print(plain("\\0{name}", 0, socket.AF_UNIX))
print(plain("1.1.1.1", 53))
try:
    print(socket.getaddrinfo("example.org", 80))
except OSError as error:
    print(type(error).__name__)
for host in ("127.0.0.1", "localhost", "{own_address()}", "[::1]", "[::ffff:127.0.0.1]"):
    print(status(f"CONNECT {{host}}:{server.port} HTTP/1.1\\r\\n\\r\\n".encode()))
""",
            "full",
        )

    assert server.heard == []
    assert told[:9] == [
        *("ConnectionRefusedError", "OSError", "OSError", "OSError", "OSError"),
        *("ConnectionRefusedError", "ConnectionRefusedError", "OSError", "gaierror"),
    ]
    assert told[9:] == ["403"] * 5
    reasons = {host: reason for host, _, reason, _ in rows(attempt)}
    assert set(reasons.values()) <= {"not_public", "resolves_not_public", "this_machine"}
    assert reasons["localhost"] == "resolves_not_public"


async def test_nothing_is_smuggled_past_the_gate(attempt: Attempt) -> None:
    """What could be read in two ways is answered by the gate; the server hears nothing of it."""
    with host_server() as server:
        here = f"model.test:{server.port}"
        told = await said(
            attempt,
            f"""
here = b"{here}"
get, host = b"GET http://" + here + b"/x HTTP/1.1\\r\\n", b"Host: " + here + b"\\r\\n"
post = b"POST http://" + here + b"/x HTTP/1.1\\r\\n" + host
print(status(get, b"Host: other.test\\r\\n\\r\\n"))
print(status(get, host, b"X: a\\nY: b\\r\\n\\r\\n"))
print(status(get, host, b"X: a\\r\\n b\\r\\n\\r\\n"))
print(status(post, b"Content-Length: 1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"))
print(status(get, host, b"Connection: Upgrade\\r\\nUpgrade: h2c\\r\\n\\r\\n"))
print(status(b"GET /x HTTP/1.1\\r\\n", host, b"\\r\\n"))
print(status(get, host, b"X: ", b"x" * 40000, b"\\r\\n\\r\\n"))
print(status(b"CONNECT 2130706433:{server.port} HTTP/1.1\\r\\n\\r\\n"))
two, chunked = b"Content-Length: 2\\r\\n\\r\\nok", b"Transfer-Encoding: chunked\\r\\n\\r\\n"
print(repr(raw(post, two, b"GET http://other.test/ HTTP/1.1\\r\\n\\r\\n")))
print(raw(post, two).rpartition("\\r\\n")[2])
print(raw(post, chunked, b"2\\r\\nok\\r\\n0\\r\\n\\r\\n").rpartition("\\r\\n")[2])
""",
            f"{here}=127.0.0.1",
        )

    assert told == ["400"] * 8 + ["''", "heard ok", "heard ok"]
    # Of the one with something behind it the head had gone ahead.
    assert {line for line, _ in server.heard} <= {"POST /x HTTP/1.1"}
    assert {host for _, host in server.heard} == {here}
    assert {reason for host, _, reason, _ in rows(attempt) if host is None} == {
        *("other_host", "bad_field", "folded_field", "two_lengths", "upgrade"),
        *("not_a_proxy_request", "head_too_long", "address_form"),
    }


async def test_a_tunnel_carries_tls_to_its_host_only(attempt: Attempt) -> None:
    """A hello that names another host, or none, is not passed on."""
    with host_server() as server:
        told = await said(
            attempt,
            f"""
import ssl
def hello(name):
    made = socket.create_connection(("127.0.0.1", 3128), 20)
    made.sendall(b"CONNECT model.test:{server.port} HTTP/1.1\\r\\n\\r\\n")
    made.recv(4096)
    context = ssl._create_unverified_context()
    try:
        context.wrap_socket(made, server_hostname=name)
    except ssl.SSLError as error:
        # The server's own words are no TLS: it was reached.
        return error.reason
    except OSError as error:
        return type(error).__name__
print(hello("model.test"))
print(hello("other.test") in ("ConnectionResetError", "UNEXPECTED_EOF_WHILE_READING"))
""",
            f"model.test:{server.port}=127.0.0.1",
        )

    assert told == ["WRONG_VERSION_NUMBER", "True"]
    assert rows(attempt)[-1] == ("model.test", server.port, "other_server_name", 1)


async def test_the_gate_ends_with_its_run_and_its_keeper(attempt: Attempt) -> None:
    """A keeper that is killed takes the gate along; it is outside, and not before it is needed."""
    script = """
print("begun", flush=True)
sys.stdin.readline()
made = socket.create_connection(("127.0.0.1", 3128), 20)
sys.stdin.readline()
"""
    await attempt.python(INSIDE + script, **told_of("full"))
    await until(lambda: attempt.stream("stdout"))
    assert gate_of(attempt) is None
    async with Peer(attempt) as peer:
        await peer.attach()
        await peer.ask("write", b"go\n", offset=0, size=3)
        gate = await until(lambda: gate_of(attempt))
    inside = os.readlink(f"/proc/{await attempt.init_pid()}/ns/net")

    assert os.readlink(f"/proc/{gate}/ns/net") == os.readlink("/proc/self/ns/net") != inside
    os.kill(attempt.pid, signal.SIGKILL)
    await until(lambda: not is_alive(gate))


async def test_a_gate_that_is_killed_comes_back(attempt: Attempt) -> None:
    """Streams break, and the next request is answered by another process with the same policy."""
    with host_server() as server:
        script = f"""
print(fetch("http://model.test:{server.port}/a"), flush=True)
sys.stdin.readline()
print(fetch("http://model.test:{server.port}/b"), fetch("http://model.test:1/"))
"""
        await attempt.python(INSIDE + script, **told_of(f"model.test:{server.port}=127.0.0.1"))
        await until(lambda: attempt.stream("stdout"))
        first = gate_of(attempt)
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: not is_alive(first))
        async with Peer(attempt) as peer:
            status = await peer.attach()
            assert status["network"] > 0
            await peer.ask("write", b"go\n", offset=0, size=3)
            assert (await peer.event("network"))["size"] > status["network"]
        await attempt.exit()

    assert attempt.stream("stdout") == b"heard \nheard  HTTPError 403\n"
    assert not any_alive({first})


def gate_of(attempt: Attempt) -> int | None:
    """The process that is the keeper's gate by now."""
    children = Path(f"/proc/{attempt.pid}/task/{attempt.pid}/children").read_text().split()
    names = {int(pid): Path(f"/proc/{pid}/comm").read_text().strip() for pid in children}
    return next((pid for pid, name in names.items() if name == "coachman-gate"), None)


async def test_a_gate_leaves_while_nobody_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays as long as a connection is open, and then no longer than its limit."""
    monkeypatch.setattr(main, "IDLE_MS", 50)
    told, heard = socket.socketpair()
    left = threading.Event()

    def echo(client: socket.socket) -> None:
        client.sendall(client.recv(100))
        client.recv(100)

    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryFile() as log:
        listener.setblocking(False)
        gate = Gate(Rules(NOTHING, no_name, is_local), Decisions(log.fileno(), told.fileno()))
        listeners = {listener.fileno(): (listener, echo)}

        def serve() -> None:
            main.serve(gate, listeners, heard.fileno())
            left.set()

        threading.Thread(target=serve, daemon=True).start()
        with socket.create_connection(listener.getsockname()) as client:
            client.sendall(b"hello")
            assert client.recv(100) == b"hello"
            # Several times the limit, in which it must not leave.
            assert not left.wait(0.3)
        assert await trio.to_thread.run_sync(left.wait, 60)
    told.close()
    heard.close()


NOTHING: dict[str, Any] = {"public": False, "destinations": []}


def no_name(_name: str, _port: int) -> list[Any]:
    """A resolver that knows none."""
    return []


async def test_counts_go_on_where_another_gate_left_them(tmp_path: Path) -> None:
    """What is denied again after a restart is counted on, and not told as new."""
    told, heard = socket.socketpair()
    path = tmp_path / LOG_NAME
    for _ in range(2):
        with path.open("a+b") as log:
            decisions = Decisions(log.fileno(), told.fileno())
            decisions.note("other.test", 80, "not_allowed")
            decisions.write_counts()
    told.close()
    heard.close()

    assert [(d["host"], d["count"]) for d in decided(tmp_path)] == [("other.test", 2)]
