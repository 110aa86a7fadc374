"""What is sent along over a run's own socket, beside the bytes."""

import array
import json
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent_inside import delegate_socket, parent, raw
from coachman import wire
from daemon_process import DaemonProcess

LINGER_S = 120
ANSWERED_WITHIN_S = 30
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "daemon.ping"}).encode() + b"\n"


@contextmanager
def lingering() -> Iterator[socket.socket]:
    """A socket that whoever closes it last waits for: it has more to say than is listened to."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        talking = socket.create_connection(server.getsockname())
        silent, _ = server.accept()
    with silent:
        talking.setblocking(False)
        try:
            while True:
                talking.send(b"x" * 65536)
        except BlockingIOError:
            pass
        talking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
        yield talking


def send_along(
    daemon: DaemonProcess, connected: Callable[[], socket.socket], data: bytes, sent: socket.socket
) -> None:
    """Send bytes and, with them, a socket that nobody else has any more when they are read."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    numbers = array.array("i", [sent.fileno()])
    connected().sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    sent.close()
    daemon.process.send_signal(signal.SIGCONT)


def answer_s(daemon: DaemonProcess) -> float:
    """How long the daemon takes to answer the user."""
    begun = time.monotonic()
    with daemon.client() as client:
        client.daemon.ping()
    return time.monotonic() - begun


def test_a_socket_that_lingers_stalls_nobody(daemon: DaemonProcess, repo: Path) -> None:
    """Sent along with a request, to a crowded socket or behind too long a line, it holds up no one.

    Closing it takes minutes, and it is the daemon that would have to.
    """
    run = parent(daemon, repo)
    path = delegate_socket(daemon, run)
    took = {}
    with ExitStack() as held:

        def connected() -> socket.socket:
            return held.enter_context(raw(path))

        def sent(connection: Callable[[], socket.socket], data: bytes) -> float:
            send_along(daemon, connection, data, held.enter_context(lingering()))
            return answer_s(daemon)

        took["a request"] = sent(connected, PING)
        long = connected()
        long.sendall(b" " * (wire.DELEGATE_REQUEST_LINE_BYTES + 1))
        assert b"1 MiB" in long.recv(65536)
        took["a long line"] = sent(lambda: long, b" ")
        for _ in range(wire.DELEGATE_CONNECTIONS):
            connected()
        took["a crowded socket"] = sent(connected, PING)

        with daemon.client() as client:
            client.run.cancel([run])
            client.run.wait([run], timeout_s=60)
        took["the run's end"] = answer_s(daemon)

    assert {what: s for what, s in took.items() if s > ANSWERED_WITHIN_S} == {}
