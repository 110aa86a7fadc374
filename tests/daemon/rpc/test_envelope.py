"""Whatever arrives on the socket is answered with the right code; the connection goes on."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coachmand.rpc.envelope import Refusal, parse
from rpc_server import Client, Server

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

PING = '{"jsonrpc":"2.0","id":7,"method":"daemon.ping"'

MALFORMED = {
    "no JSON": (b"hello", PARSE_ERROR, None),
    "half an object": (b'{"jsonrpc":"2.0","id":1', PARSE_ERROR, None),
    "two documents": (b"{} {}", PARSE_ERROR, None),
    "trailing comma": (b'{"jsonrpc":"2.0",}', PARSE_ERROR, None),
    "single quotes": (b"{'jsonrpc':'2.0'}", PARSE_ERROR, None),
    "NaN": (PING.encode() + b',"params":{"x":NaN}}', PARSE_ERROR, None),
    "Infinity": (PING.encode() + b',"params":{"x":-Infinity}}', PARSE_ERROR, None),
    "a float beyond doubles": (PING.encode() + b',"params":{"x":1e999}}', PARSE_ERROR, None),
    "an integer of 30 digits": (
        PING.encode() + b',"params":{"x":' + b"9" * 30 + b"}}",
        PARSE_ERROR,
        None,
    ),
    "an integer of 66 bits": (
        PING.encode() + b',"params":{"x":73786976294838206464}}',
        PARSE_ERROR,
        None,
    ),
    "an integer of 9,000 digits": (
        PING.encode() + b',"params":{"x":' + b"9" * 9000 + b"}}",
        PARSE_ERROR,
        None,
    ),
    "a lone surrogate": (PING.encode() + b',"params":{"x":"\\ud800"}}', PARSE_ERROR, None),
    "a lone low surrogate": (PING.encode() + b',"params":{"x":"\\udc00a"}}', PARSE_ERROR, None),
    "a surrogate in bytes": (PING.encode() + b',"params":{"x":"\xed\xa0\x80"}}', PARSE_ERROR, None),
    "Latin-1": (PING.encode() + b',"params":{"x":"\xe9"}}', PARSE_ERROR, None),
    "a byte order mark": (b"\xef\xbb\xbf" + PING.encode() + b"}", PARSE_ERROR, None),
    "UTF-16": ((PING + "}").encode("utf-16-le").replace(b"\n", b""), PARSE_ERROR, None),
    "a raw control character": (PING.encode() + b',"params":{"x":"\t"}}', PARSE_ERROR, None),
    "a repeated member": (PING.encode() + b',"method":"daemon.stop"}', PARSE_ERROR, None),
    "a repeated parameter": (PING.encode() + b',"params":{"a":1,"a":2}}', PARSE_ERROR, None),
    "deep arrays": (b"[" * 100_000, PARSE_ERROR, None),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, PARSE_ERROR, None),
    "a string": (b'"hello"', INVALID_REQUEST, None),
    "null": (b"null", INVALID_REQUEST, None),
    "a batch": (b"[" + PING.encode() + b"}]", INVALID_REQUEST, None),
    "an empty batch": (b"[]", INVALID_REQUEST, None),
    "no version": (b'{"id":7,"method":"daemon.ping"}', INVALID_REQUEST, 7),
    "another version": (b'{"jsonrpc":"1.0","id":7,"method":"daemon.ping"}', INVALID_REQUEST, 7),
    "no method": (b'{"jsonrpc":"2.0","id":"a"}', INVALID_REQUEST, "a"),
    "a method that is a number": (b'{"jsonrpc":"2.0","id":7,"method":1}', INVALID_REQUEST, 7),
    "a null id": (b'{"jsonrpc":"2.0","id":null,"method":"daemon.ping"}', INVALID_REQUEST, None),
    "a boolean id": (b'{"jsonrpc":"2.0","id":true,"method":"daemon.ping"}', INVALID_REQUEST, None),
    "a float id": (b'{"jsonrpc":"2.0","id":1.5,"method":"daemon.ping"}', INVALID_REQUEST, None),
    "an array id": (b'{"jsonrpc":"2.0","id":[1],"method":"daemon.ping"}', INVALID_REQUEST, None),
    "a reply": (b'{"jsonrpc":"2.0","id":7,"result":{}}', INVALID_REQUEST, 7),
    "null parameters": (PING.encode() + b',"params":null}', INVALID_REQUEST, 7),
    "a parameter string": (PING.encode() + b',"params":"x"}', INVALID_REQUEST, 7),
    "positional parameters": (PING.encode() + b',"params":[1]}', INVALID_PARAMS, 7),
    "empty positional parameters": (PING.encode() + b',"params":[]}', INVALID_PARAMS, 7),
    "an unknown parameter": (PING.encode() + b',"params":{"x":1}}', INVALID_PARAMS, 7),
    "an unknown method": (b'{"jsonrpc":"2.0","id":7,"method":"daemon.pong"}', METHOD_NOT_FOUND, 7),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("s", numbered=True) / "c" / "s.sock") as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as connected:
        yield connected


@pytest.mark.parametrize(("line", "code", "request_id"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_line_gets_its_code(
    client: Client, line: bytes, code: int, request_id: object
) -> None:
    """Every malformed line is answered with its exact code and id, and the connection lives on."""
    client.send(line + b"\n")
    reply = client.read()

    assert (reply["error"]["code"], reply["id"]) == (code, request_id)
    assert reply["error"]["message"].startswith("cannot ")
    assert set(reply["error"]["data"]) == {
        "name",
        "hint",
        "retryable",
        "retry_after_s",
        "detail",
        "next",
    }
    assert client.call("daemon.ping", request_id=2) == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize("request_id", [0, -1, 2**63, 2**64 - 1, "", "é", "x" * 1000])
def test_ids_come_back_verbatim(client: Client, request_id: object) -> None:
    """An id is echoed as it came, whatever integer or string it is."""
    assert client.call("daemon.ping", request_id=request_id)["id"] == request_id


def test_blank_lines_and_carriage_returns_are_no_requests(client: Client) -> None:
    """Blank lines are passed over, and a line may end in CR LF."""
    client.send(b"\n  \r\n\n" + PING.encode() + b"}\r\n")

    assert client.read()["id"] == 7


def test_members_beside_those_of_the_envelope_are_ignored(client: Client) -> None:
    """A member that JSON-RPC does not name is left to later versions."""
    client.send(PING.encode() + b',"_meta":{"traceparent":"00-1"}}\n')

    assert client.read()["result"] == {}


def test_notifications_are_never_answered(client: Client) -> None:
    """A notification gets no reply, not even when it is refused."""
    client.request("daemon.ping", request_id=None)
    client.request("no.such", request_id=None)
    client.request("$/unknown", request_id=None)
    client.send(b'{"jsonrpc":"2.0","method":"daemon.ping","params":[1]}\n')

    assert client.call("daemon.ping", request_id="last")["id"] == "last"


def test_a_request_may_arrive_byte_by_byte(client: Client) -> None:
    """A line counts when its newline arrives, however its bytes were chunked."""
    for byte in PING.encode() + b"}\n":
        client.send(bytes([byte]))

    assert client.read()["id"] == 7


def test_the_nearest_method_is_named(client: Client) -> None:
    """An unknown method is answered with the nearest known one."""
    error = client.call("daemon.pin")["error"]

    assert error["message"] == "cannot call daemon.pin: no such method"
    assert error["data"]["hint"] == "did you mean daemon.ping?"


@given(st.binary(max_size=400))
def test_parsing_never_raises(line: bytes) -> None:
    """Any bytes at all become a request or a refusal."""
    parsed = parse(line)

    if isinstance(parsed, Refusal):
        assert parsed.error.name in {"ParseError", "InvalidRequest", "InvalidParams"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.binary(max_size=60) | JSON.map(lambda v: json.dumps(v).encode()), max_size=8))
def test_garbage_never_takes_the_connection_down(client: Client, lines: list[bytes]) -> None:
    """After any garbage, the next good request on the same connection is answered."""
    client.send(b"".join(line + b"\n" for line in lines))
    client.request("daemon.ping", request_id="after")

    while (reply := client.read())["id"] != "after":
        assert "error" in reply
    assert reply["result"] == {}
