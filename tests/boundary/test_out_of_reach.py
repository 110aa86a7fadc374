"""What a run of each profile cannot reach with the network that it has by itself.

All attempts of a profile are made in one run, each in a process of its own. One got through where
it ends without an error, and where a server of the host heard of it.
"""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import frozen

from daemon_process import DaemonProcess
from gated import host_server
from ordinary import USERS, daemons_of

PROFILES = ("edit", "review", "sealed")
NEUTRAL = '[storage]\nsealed = "{neutral}"\n'
RUNNER = """
import ctypes, fcntl, json, os, socket, struct, sys
LIMIT_S = 5
def tcp(address, port, family=socket.AF_INET):
    with socket.socket(family) as made:
        made.settimeout(LIMIT_S)
        made.connect((address, port))
def udp(address, port, family=socket.AF_INET):
    # Refused is learnt with the second word, if at all; only an answer would be a way.
    with socket.socket(family, socket.SOCK_DGRAM) as made:
        made.settimeout(0.5)
        made.connect((address, port))
        made.send(b"asked")
        made.recv(512)
def asked(head):
    with socket.create_connection(("127.0.0.1", 3128), LIMIT_S) as made:
        made.sendall(head.replace("|", "\\r\\n").encode() + b"\\r\\n\\r\\n")
        said = made.recv(4096)
    if not said.startswith(b"HTTP/1.1 2"):
        raise OSError(0, said.split(b"\\r\\n")[0].decode() or "closed")
host = json.loads(sys.argv[1])
for name, code in json.loads(sys.argv[2]).items():
    reader, writer = os.pipe()
    if os.fork() == 0:
        told = "worked"
        try:
            exec(code)
        except OSError as error:
            told = error.strerror or type(error).__name__
        except BaseException as error:
            told = f"broken: {error!r}"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 65536).decode() or "died"
    os.wait()
    print(json.dumps([name, told]), flush=True)
"""
DIRECT = {
    "a service on loopback": "tcp('127.0.0.1', host['port'])",
    "one on another loopback address": "tcp('127.8.8.8', host['port'])",
    "one by the address of nobody": "tcp('0.0.0.0', host['port'])",
    "one by IPv6": "tcp('::1', host['port'], socket.AF_INET6)",
    "one by a mapped address": "tcp('::ffff:127.0.0.1', host['port'], socket.AF_INET6)",
    "one by name": "socket.create_connection(('localhost', host['port']), LIMIT_S)",
    "one at an address of the machine": "tcp(host['own'], host['port'])",
    "one by UDP": "udp('127.0.0.1', host['udp'])",
    "one by UDP at an address of the machine": "udp(host['own'], host['udp'])",
    "an abstract socket": "socket.socket(socket.AF_UNIX).connect('\\0' + host['abstract'])",
    "a link-local address": "tcp('169.254.1.1', 80)",
    "a link-local address of IPv6": "tcp('fe80::1%lo', 80, socket.AF_INET6)",
    "the metadata of a cloud": "tcp('169.254.169.254', 80)",
    "the metadata of another": "tcp('168.63.129.16', 80)",
    "its credentials": "tcp('169.254.170.2', 80)",
    "its metadata by IPv6": "tcp('fd00:ec2::254', 80, socket.AF_INET6)",
    "a private network": "tcp('10.0.0.1', 80)",
    "a public address": "tcp('1.1.1.1', 443)",
    "a name server": "udp('1.1.1.1', 53)",
    "a name server by TCP": "tcp('1.1.1.1', 53)",
    "a name server of the host": "[udp(each, 53) for each in host['resolvers']]",
    "a name": "socket.getaddrinfo('example.org', 443)",
    "multicast": "udp('224.0.0.251', 5353)",
    "broadcast": "udp('255.255.255.255', 67)",
    "an echo": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "an echo without rights": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).sendto("
    "b'\\x08\\0' + bytes(6), ('1.1.1.1', 0))",
    "an address of its own": "fcntl.ioctl(socket.socket(), 0x8916, struct.pack("
    "'16sH2s4s8s', b'lo', 2, bytes(2), socket.inet_aton('10.1.1.1'), bytes(8)))",
    "another port beside the proxy": "tcp('127.0.0.1', 3129)",
}
DIRECT["names of abstract sockets"] = (
    "text = open('/proc/net/unix').read(); [].pop() if host['abstract'] in text else os.stat('/no')"
)
SPELLINGS = (
    *("127.0.0.1", "localhost", "2130706433", "0x7f000001", "017700000001", "127.1", "0.0.0.0"),
    *(
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1%25lo]",
    ),
    *("[2002:7f00:1::]", "127.0.0.1.", "localhost.", "127。0。0。1", "①27.0.0.1", "{own}"),
    *(
        "169.254.169.254",
        "[::ffff:a9fe:a9fe]",
        "metadata.google.internal",
        "1.1.1.1",
        "example.org",
    ),
)
FORMS = {
    "tunnel": "CONNECT {host}:{port} HTTP/1.1|Host: {host}:{port}",
    "request": "GET http://{host}:{port}/ HTTP/1.1|Host: {host}:{port}",
}
PROXIED = {
    f"{spelling} by a {form}": f"asked({head!r}.format(host={spelling!r}.format(own=host['own']),"
    " port=host['port']))"
    for spelling in SPELLINGS
    for form, head in FORMS.items()
}
SMUGGLED = {
    "a request as to a server": "asked(f'GET / HTTP/1.1|Host: 127.0.0.1:{host[\"port\"]}')",
    "another protocol": "asked('PRI * HTTP/2.0||SM|')",
    "an upgrade": "asked('GET http://a.test/ HTTP/1.1|Host: a.test|Upgrade: h2c')",
    "two hosts": "asked('GET http://a.test/ HTTP/1.1|Host: a.test|Host: 127.0.0.1')",
    "a host on a folded line": "asked('GET http://a.test/ HTTP/1.1|Host: a.test| .x')",
    "two lengths": "asked('POST http://a.test/ HTTP/1.1|Host: a.test|Content-Length: 1"
    "|Transfer-Encoding: chunked')",
    "two requests": "asked('GET http://a.test/ HTTP/1.1|Host: a.test||GET http://b.test/ x')",
    "a login in front": "asked(f'CONNECT a.test@127.0.0.1:{host[\"port\"]} HTTP/1.1')",
}
# That one gets through is noticed: its own listener, and the proxy itself.
CONTROLS = {
    "control: a socket of its own": "a = socket.create_server(('127.0.0.1', 0)); "
    "tcp(*a.getsockname())",
    "control: the proxy": "tcp('127.0.0.1', 3128)",
}
ATTEMPTS = {**DIRECT, **PROXIED, **SMUGGLED}
CASES = [(user, profile, name) for user in USERS for profile in PROFILES for name in ATTEMPTS]


@frozen
class Tried:
    """What came of each attempt of a profile, and what servers of the host heard meanwhile."""

    told: dict[str, str]
    heard: list[object]


@pytest.fixture(scope="module")
def daemons() -> Iterator[dict[str, DaemonProcess]]:
    """A daemon of each user."""
    with daemons_of(NEUTRAL) as made:
        yield made


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, str], Tried]:
    """What was tried: the first test of each profile and user asks."""
    return {}


@pytest.fixture
def tried(
    daemons: dict[str, DaemonProcess],
    known: dict[tuple[str, str], Tried],
    user: str,
    profile: str,
) -> Tried:
    """What came of the attempts of one profile and user."""
    if (user, profile) not in known:
        known[user, profile] = attempts_of(daemons[user], profile)
    return known[user, profile]


@contextmanager
def datagrams(heard: list[object]) -> Iterator[int]:
    """A service of the host that answers everybody by UDP; its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("0.0.0.0", 0))

        def serve() -> None:
            while True:
                said, where = server.recvfrom(512)
                if not said:
                    return
                heard.append(said)
                server.sendto(b"heard", where)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.sendto(b"", ("127.0.0.1", server.getsockname()[1]))
            thread.join()


def own_address() -> str:
    """An address of this machine that others see; nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("8.8.8.8", 9))
        return str(probe.getsockname()[0])


def resolvers() -> list[str]:
    """The host's own name servers."""
    lines = Path("/etc/resolv.conf").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("nameserver ")] or ["127.0.0.53"]


def attempts_of(daemon: DaemonProcess, profile: str) -> Tried:
    """Carry all of them out in one run."""
    heard: list[object] = []
    with (
        host_server("0.0.0.0") as server,
        datagrams(heard) as port,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        name = f"coachman-test-{os.getpid()}-{server.port}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        facts = {"port": server.port, "udp": port, "abstract": name, "own": own_address()}
        given = (
            json.dumps({**facts, "resolvers": resolvers()}),
            json.dumps({**ATTEMPTS, **CONTROLS}),
        )
        words = ("-a", "command", "--profile", profile, "-d", "--json")
        argv = ("/usr/bin/python3", "-I", "-c", RUNNER, *given)
        begun = daemon.cli("run", *words, "--", *argv, cwd=daemon.root / "repo")
        assert begun.returncode == 0, begun.stdout + begun.stderr
        run = json.loads(begun.stdout)["run"]
        daemon.cli("wait", run)
        found = json.loads(daemon.cli("result", run, "--json").stdout)
        heard += server.heard
    said = (Path(found["evidence_dir"]) / "final.md").read_text().splitlines()
    return Tried(dict(json.loads(line) for line in said), heard)


@pytest.mark.parametrize(("user", "profile", "attempt"), CASES)
def test_nothing_is_reached_that_was_not_given(tried: Tried, attempt: str) -> None:
    """Neither past the gate nor through it, however it is asked for."""
    assert tried.told[attempt] not in ("worked", "died")
    assert not tried.told[attempt].startswith("broken"), tried.told[attempt]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("profile", PROFILES)
def test_no_server_of_the_host_heard_anything(tried: Tried) -> None:
    """And what may be reached was: an attempt that gets through would be noticed."""
    assert tried.heard == []
    assert [tried.told[name] for name in CONTROLS] == ["worked"] * len(CONTROLS)
