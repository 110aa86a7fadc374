"""Events on a connection: replies go first, a slow reader only ever slows itself."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coachman import wire
from coachmand.rpc.outbox import SEND_BYTES, _pieces
from rpc_server import Client, Server

Eventually = Callable[..., object]

SOCKET_BUFFERS_BYTES = 512 * 1024


@pytest.fixture
def server(state_dir: Path) -> Iterator[Server]:
    with Server(state_dir / "s.sock") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


def drain(client: Client, count: int) -> list[int]:
    return [client.read()["params"]["n"] for _ in range(count)]


def test_the_reply_comes_before_the_first_event(client: Client) -> None:
    """A subscription is answered before its first notification arrives."""
    reply = client.call("test.stream", {"count": 250})

    assert reply["result"] == {"subscription": "s1"}
    assert drain(client, 250) == list(range(250))


def test_replies_overtake_the_events_that_wait(
    server: Server, client: Client, eventually: Eventually
) -> None:
    """With a megabyte of events unsent, a reply comes after what the kernel holds already."""
    client.call("test.stream", {"count": 20_000, "size": 200})
    eventually(lambda: stalled(server))
    client.request("daemon.ping", request_id="ping")

    before = 0
    while "id" not in (line := client.read()):
        before += len(line["params"]["text"])
    rest = 20_000 - before // 200
    assert line["id"] == "ping"
    assert before < SOCKET_BUFFERS_BYTES
    assert drain(client, rest) == list(range(20_000 - rest, 20_000))


def stalled(server: Server) -> bool:
    """Whether the stream sent something and then nothing more for a while."""
    seen = len(server.log)
    deadline = time.monotonic() + 0.1
    while time.monotonic() < deadline:
        if len(server.log) != seen or not seen:
            return False
    return True


def test_a_stopped_reader_stops_its_own_stream_only(
    server: Server, client: Client, eventually: Eventually
) -> None:
    """At most 1 MiB waits for a reader that stopped; others are served, and it loses nothing."""
    client.call("test.stream", {"count": 50_000, "size": 200})
    eventually(lambda: stalled(server))
    sent_bytes = int(server.log[-1].split()[1]) * 200
    [peer] = server.listener.peers

    assert server.do(lambda: peer._outbox.unsent_bytes) <= wire.MAX_UNSENT_BYTES
    assert sent_bytes < wire.MAX_UNSENT_BYTES + SOCKET_BUFFERS_BYTES
    with server.client() as other:
        other.call("test.stream", {"count": 5_000})
        assert drain(other, 5_000) == list(range(5_000))
    assert drain(client, 50_000) == list(range(50_000))


def test_a_client_that_never_reads_is_not_read_from(
    server: Server, client: Client, eventually: Eventually
) -> None:
    """Replies that nobody reads hold up the requests behind them, not the daemon's memory."""
    client.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        ask_forever(client)
    [peer] = server.listener.peers

    assert server.do(lambda: peer._outbox.unsent_bytes) < 2 * wire.MAX_UNSENT_BYTES
    with server.client() as other:
        assert other.call("daemon.ping")["result"] == {}


def test_replies_beyond_a_megabyte_are_all_sent(client: Client) -> None:
    """Requests that arrive at once are all answered, however much that is."""
    requests = [
        b'{"jsonrpc":"2.0","id":%d,"method":"test.large","params":{"text":"x","times":200000}}\n'
        % n
        for n in range(100)
    ]
    client.send(b"".join(requests))

    assert [client.read()["id"] for _ in requests] == list(range(100))


def ask_forever(client: Client) -> None:
    while True:
        client.request("test.large", {"text": "x" * 1000, "times": 100})


def test_hanging_up_ends_a_stream_that_waits(
    server: Server, client: Client, eventually: Eventually
) -> None:
    """A stream that waits for its reader ends when the reader goes."""
    client.call("test.stream", {"count": 50_000, "size": 200})
    eventually(lambda: stalled(server))
    client.close()

    eventually(lambda: "stream over" in server.log)
    eventually(lambda: not server.listener.peers)


def test_a_fault_in_a_stream_ends_its_connection_only(server: Server, client: Client) -> None:
    """An exception in a subscription closes its connection; others are served on."""
    with server.client() as other:
        assert client.call("test.stream_broken")["result"] == {"subscription": "s2"}
        while not client.at_end():
            pass
        assert other.call("daemon.ping")["result"] == {}


def test_a_half_closed_client_keeps_its_stream(client: Client) -> None:
    """A subscription goes on after EOF from the client; the connection ends with it."""
    client.request("test.stream", {"count": 3_000})
    client.sock.shutdown(socket.SHUT_WR)

    assert client.read()["id"] == 1
    assert drain(client, 3_000) == list(range(3_000))
    assert client.at_end()


def test_many_readers_each_get_everything_in_order(server: Server) -> None:
    """Twenty connections each receive every event once and in order."""
    results: dict[int, list[int]] = {}

    def read(number: int) -> None:
        with server.client() as client:
            client.call("test.stream", {"count": 2_000})
            results[number] = drain(client, 2_000)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [results.get(number) == list(range(2_000)) for number in range(20)] == [True] * 20


@pytest.mark.parametrize(
    "sizes",
    [[10], [100] * 3000, [SEND_BYTES * 3], [10, SEND_BYTES * 2, 10], [SEND_BYTES - 1] * 3],
)
def test_batches_are_cut_between_lines_only(sizes: list[int]) -> None:
    """A batch is cut into sends of about 64 KiB, never within a line."""
    lines = b"".join(b"x" * size + b"\n" for size in sizes)
    pieces = list(_pieces(lines))

    assert b"".join(pieces) == lines
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert all(len(piece) <= SEND_BYTES or piece.count(b"\n") == 1 for piece in pieces)
