"""Several requests at once on one connection: order, cancelling, limits, faults, hang-ups."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coachman import wire
from coachmand.rpc.errors import RpcError, as_rpc_error
from rpc_server import Client, Server

Eventually = Callable[..., object]


@pytest.fixture
def server(state_dir: Path) -> Iterator[Server]:
    with Server(state_dir / "s.sock") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


def test_answers_come_when_they_are_ready(client: Client) -> None:
    """A request that waits holds up nothing that comes after it on the same connection."""
    client.request("test.wait", request_id="slow")
    client.request("test.echo", {"text": "a"}, request_id="task")
    client.request("daemon.ping", request_id="inline")
    first = {client.read()["id"], client.read()["id"]}
    client.request("test.open", request_id="open")
    last = {client.read()["id"], client.read()["id"]}

    assert (first, last) == ({"task", "inline"}, {"slow", "open"})


def test_results_are_the_fields_of_their_class(client: Client) -> None:
    """An attrs instance becomes an object with all its fields, None included."""
    assert client.call("test.echo", {"text": "é", "times": 2})["result"] == {
        "texts": ["é", "é"],
        "note": None,
    }


def test_a_cancelled_request_is_answered(client: Client, server: Server) -> None:
    """``$/cancelRequest`` ends the handler, and its request is answered with Cancelled."""
    client.request("test.wait", request_id="w")
    client.request("$/cancelRequest", {"id": "w"}, request_id=None)
    reply = client.read()

    assert (reply["id"], reply["error"]["code"]) == ("w", -32800)
    assert reply["error"]["message"] == "cannot finish test.wait: the client cancelled it"
    assert client.call("daemon.ping", request_id=2)["id"] == 2


@pytest.mark.parametrize("target", ["gone", 1, None, [1], {"a": 1}, True, 1.0])
def test_cancelling_what_is_not_there_does_nothing(client: Client, target: object) -> None:
    """A cancel for an id that is not in flight, or is no id, changes nothing."""
    client.request("test.wait", request_id="1")
    client.request("$/cancelRequest", {"id": target}, request_id=None)

    assert client.call("test.open", request_id="open")["id"] in {"open", "1"}
    assert "result" in client.read()


def test_the_sixty_fifth_request_in_flight_is_busy(client: Client) -> None:
    """Past 64 requests in flight a connection is answered Busy, and is free again later."""
    for number in range(wire.MAX_REQUESTS_IN_FLIGHT):
        client.request("test.wait", request_id=number)
    error = client.call("test.wait", request_id="more")["error"]

    assert (error["code"], error["data"]["retryable"]) == (-32005, True)
    assert error["data"]["detail"] == {"source": "local", "limit": 64, "active": 64}
    assert client.call("daemon.ping", request_id="ping")["id"] == "ping"
    client.request("$/cancelRequest", {"id": 0}, request_id=None)
    assert client.read()["id"] == 0
    assert client.call("test.open", request_id="open")["result"] == {}
    assert {client.read()["id"] for _ in range(63)} == set(range(1, 64))


def test_an_id_in_flight_cannot_be_used_again(client: Client) -> None:
    """A second request under an id in flight is refused; the first goes on."""
    client.request("test.wait", request_id=5)
    error = client.call("test.echo", {"text": "x"}, request_id=5)["error"]
    client.request("test.open", request_id=6)

    assert error["data"]["name"] == "InvalidRequest"
    assert {client.read()["id"], client.read()["id"]} == {5, 6}


def test_a_refusal_from_within_nurseries_is_answered_as_it_is(client: Client) -> None:
    """An RpcError that a nursery wrapped in groups arrives with its name, hint and next."""
    error = client.call("test.refuse")["error"]

    assert (error["code"], error["message"]) == (-32002, "cannot go on: somebody was faster")
    assert error["data"]["name"] == "Conflict"
    assert error["data"]["hint"] == "look"
    assert error["data"]["next"] == [["coachman", "list"]]


@pytest.mark.parametrize("method", ["test.break", "test.break_later", "test.unserializable"])
def test_a_fault_is_told_by_an_incident_id_only(
    client: Client, capfd: pytest.CaptureFixture[str], method: str
) -> None:
    """An unexpected exception reaches the log; the client gets its incident id, never its text."""
    reply = client.call(method)
    error = reply["error"]
    incident = error["data"]["detail"]["incident"]

    assert error["code"] == -32603
    assert not any(word in json.dumps(reply) for word in ("swordfish", "LookupError", "Traceback"))
    assert incident in error["message"]
    assert incident in capfd.readouterr().out
    assert client.call("daemon.ping")["result"] == {}


def test_a_name_that_is_no_utf8_does_not_break_the_reply(client: Client) -> None:
    """A lone surrogate in a result becomes a question mark."""
    assert client.call("test.surrogate")["result"] == {"name": "caf?"}


def test_a_half_closed_client_gets_its_answers(client: Client, eventually: Eventually) -> None:
    """After EOF from the client every request is still answered, then the connection ends."""
    client.request("test.wait", request_id="slow")
    client.request("daemon.ping", request_id="ping")
    client.send(b'{"jsonrpc":"2.0","id":"open","method":"test.open"}')  # no newline at the end
    client.sock.shutdown(socket.SHUT_WR)

    assert {client.read()["id"] for _ in range(3)} == {"slow", "ping", "open"}
    assert client.at_end()


@pytest.mark.parametrize("half_first", [False, True])
def test_hanging_up_cancels_what_was_in_flight(
    server: Server, eventually: Eventually, half_first: bool
) -> None:
    """A client that goes has its requests cancelled, also after it half-closed."""
    client = server.client()
    client.request("test.wait")
    eventually(lambda: server.log == ["waiting"])
    if half_first:
        client.sock.shutdown(socket.SHUT_WR)
    client.close()

    eventually(lambda: server.log == ["waiting", "cancelled"])
    eventually(lambda: not server.listener.peers)


def test_a_half_closed_client_keeps_waiting(server: Server, eventually: Eventually) -> None:
    """EOF alone cancels nothing: the client may still be reading."""
    with server.client() as client:
        client.request("test.wait")
        client.sock.shutdown(socket.SHUT_WR)
        with server.client() as other:
            other.call("daemon.ping")
            eventually(lambda: "waiting" in server.log)
            other.call("test.open")

        assert client.read()["result"] == {"waited": True}
        assert "cancelled" not in server.log


def test_a_reset_is_a_hang_up(server: Server, eventually: Eventually) -> None:
    """A client that vanishes with answers unread takes nothing else along."""
    client = server.client()
    for _ in range(200):
        client.request("test.large", {"text": "x", "times": 10_000})
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()

    eventually(lambda: not server.listener.peers)
    with server.client() as other:
        assert other.call("daemon.ping")["result"] == {}


def test_a_line_of_sixteen_mib_is_taken(client: Client) -> None:
    """A line may have 16 MiB."""
    head = b'{"jsonrpc":"2.0","id":1,"method":"daemon.ping","_pad":"'
    client.send(head + b"x" * (wire.MAX_REQUEST_LINE_BYTES - len(head) - 2) + b'"}\n')

    assert client.read()["result"] == {}


def test_a_longer_line_is_refused_and_the_connection_closed(client: Client) -> None:
    """Past 16 MiB the client is told so and disconnected, once it has read the refusal."""
    client.send(b"x" * (wire.MAX_REQUEST_LINE_BYTES + 2**20))
    reply = client.read()

    assert (reply["id"], reply["error"]["code"]) == (None, -32600)
    assert reply["error"]["message"] == "cannot accept the line: it exceeds 16 MiB"
    assert client.at_end()


def test_a_fault_beside_a_refusal_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    """The refusal in a group is the answer; what failed beside it goes to the log."""
    refusal = RpcError("Conflict", "cannot go on: somebody was faster")
    group = ExceptionGroup("both", [ExceptionGroup("inner", [refusal]), LookupError("beside")])

    assert as_rpc_error(group, "run.start") is refusal
    assert "beside" in capfd.readouterr().out
