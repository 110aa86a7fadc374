"""The gate's tables: spellings of addresses, forms of requests, what a tunnel may begin with."""

import ssl
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coachmand.gate.addresses import Unfit, is_forbidden, is_public, parse_host
from coachmand.gate.filters import Body, Chunks, Tunnel
from coachmand.gate.heads import Malformed, parse_head
from coachmand.gate.rules import Denied, Rules

PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::1")
NOT_PUBLIC = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1"),
    *("127.255.255.254", "169.254.1.1", "172.16.0.1", "172.31.255.255", "192.0.0.1"),
    *("192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255"),
    *("198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *("255.255.255.255", "169.254.169.254", "100.100.100.200", "168.63.129.16"),
    *("::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1"),
    *("2001::1", "2001:db8::1", "3fff::1", "4000::1", "64:ff9b:1::1"),
    # An address of IPv4 in each of its wrappings.
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::10.1.2.3"),
    *("64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "2002:7f00:1::", "2002:a00:1::1"),
    *("2002:a9fe:a9fe::", "2606:4700::5efe:127.0.0.1", "2606:4700::200:5efe:10.0.0.1"),
    *("::ffff:0:127.0.0.1", "::ffff:168.63.129.16"),
)


@pytest.mark.parametrize("text", PUBLIC)
def test_a_public_address_may_be_connected_to(text: str) -> None:
    """Global unicast is public, in both families."""
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_what_is_not_global_unicast_is_not_public(text: str) -> None:
    """Neither the special-purpose networks nor what stands for an address in them."""
    assert not is_public(ip_address(text))


@given(st.ip_addresses(v=4))
def test_a_wrapped_address_is_as_public_as_what_it_wraps(inner: IPv4Address) -> None:
    """Mapped, NAT64, 6to4 and ISATAP forms of an IPv4 address are judged by that address."""
    packed = inner.packed
    forms = (
        IPv6Address(bytes(10) + b"\xff\xff" + packed),
        IPv6Address(bytes.fromhex("0064ff9b") + bytes(8) + packed),
        IPv6Address(b"\x20\x02" + packed + bytes(10)),
        IPv6Address(bytes.fromhex("26064700") + bytes(4) + bytes.fromhex("00005efe") + packed),
    )
    assert {is_public(form) for form in forms} == {is_public(inner)}
    assert {is_forbidden(form) for form in forms} == {is_forbidden(inner)}


SPELLINGS = {
    "2130706433": "address_form",
    "0x7f000001": "address_form",
    "0X7F.1": "address_form",
    "017700000001": "address_form",
    "0177.0.0.1": "address_form",
    "127.1": "address_form",
    "127.0.1": "address_form",
    "127.0.0.01": "address_form",
    "127.0.0.0x1": "address_form",
    "127.0.0.1.": "address_form",
    "2852039166": "address_form",
    "0xa9fea9fe": "address_form",
    "0251.0376.0251.0376": "address_form",
    "169.254.43518": "address_form",
    "1.2.3.4.5": "address_form",
    "256.1.1.1": "address_form",
    "example.0x": "address_form",
    "[::1%lo]": "zone_id",
    "[fe80::1%25eth0]": "zone_id",
    "[::1": "bad_host",
    "[::ffff:127.0.0.1%25lo]": "zone_id",
    "[127.0.0.1]": "bad_host",
    "[::ffff:127.1]": "bad_host",
    "[::ffff:0x7f.0.0.1]": "bad_host",
    "[v1.fe80::1]": "bad_host",
    "[]": "bad_host",
    "::1": "bad_host",
    "": "bad_host",
    ".": "bad_host",
    "a..b": "bad_host",
    ".example.org": "bad_host",
    "example.org..": "bad_host",
    "-a.example": "bad_host",
    "a-.example": "bad_host",
    "exa mple.org": "bad_host",
    "example.org%00": "bad_host",
    "example%2eorg": "bad_host",
    "user@example.org": "bad_host",
    f"{'a' * 64}.org": "bad_host",
    f"{'a.' * 127}org": "bad_host",
    "bücher.example": "not_ascii",
    "１２７.0.0.1": "not_ascii",
    "127。0。0。1": "not_ascii",
    "ⓔxample.org": "not_ascii",
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_host_in_another_spelling_is_refused(text: str) -> None:
    """Whatever a resolver could take for another host than its text says names none."""
    with pytest.raises(Unfit, match=f"^{SPELLINGS[text]}$"):
        parse_host(text)


def test_a_name_has_one_spelling() -> None:
    """Case and the root's dot make no other name; punycode is one like any other."""
    assert parse_host("API.Example.ORG.") == "api.example.org"
    assert parse_host("xn--bcher-kva.example") == "xn--bcher-kva.example"
    assert parse_host("[0:0:0:0:0:0:0:1]") == IPv6Address("::1")


REQUESTS = {
    # Targets.
    "GET / HTTP/1.1\r\nHost: a.example": "not_a_proxy_request",
    "OPTIONS * HTTP/1.1\r\nHost: a.example": "not_a_proxy_request",
    "GET //a.example/ HTTP/1.1\r\nHost: a.example": "not_a_proxy_request",
    "GET https://a.example/ HTTP/1.1\r\nHost: a.example": "bad_scheme",
    "GET ftp://a.example/ HTTP/1.1\r\nHost: a.example": "bad_scheme",
    "GET file:///etc/passwd HTTP/1.1\r\nHost: a.example": "bad_scheme",
    "GET http://u:p@a.example/ HTTP/1.1\r\nHost: a.example": "userinfo",
    "GET http://a.example@b.example/ HTTP/1.1\r\nHost: a.example": "userinfo",
    "GET http://a.example#@b.example/ HTTP/1.1\r\nHost: a.example": "bad_target",
    "GET http://a.example\\@b.example/ HTTP/1.1\r\nHost: a.example": "bad_target",
    "GET http://a.example:0/ HTTP/1.1\r\nHost: a.example": "bad_port",
    "GET http://a.example:99999/ HTTP/1.1\r\nHost: a.example": "bad_port",
    "GET http://a.example:080/ HTTP/1.1\r\nHost: a.example": "bad_port",
    "GET http://a.example:/ HTTP/1.1\r\nHost: a.example": "bad_port",
    "CONNECT a.example HTTP/1.1\r\nHost: a.example": "no_port",
    "CONNECT [::1] HTTP/1.1\r\nHost: a.example": "no_port",
    "CONNECT a.example:+443 HTTP/1.1\r\nHost: a.example:443": "bad_port",
    "CONNECT a.example:443:80 HTTP/1.1\r\nHost: a.example:443": "bad_host",
    "CONNECT u@a.example:443 HTTP/1.1\r\nHost: a.example:443": "userinfo",
    "CONNECT http://a.example:443 HTTP/1.1\r\nHost: a.example:443": "bad_host",
    "CONNECT 0x7f.1:80 HTTP/1.1\r\nHost: 0x7f.1:80": "address_form",
    # Another host than the target's.
    "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443": "other_host",
    "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:444": "other_host",
    "CONNECT a.example:8080 HTTP/1.1\r\nHost: a.example": "other_host",
    "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nHost: b.example:443": "repeated_host",
    "GET http://a.example/ HTTP/1.1\r\nHost: b.example": "other_host",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nhost: a.example": "repeated_host",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example:81": "other_host",
    "GET http://a.example/ HTTP/1.1\r\nAccept: */*": "no_host",
    "GET http://a.example/ HTTP/1.1\r\nHost:": "bad_host",
    # Two lengths, or none that can be known.
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n"
    "Transfer-Encoding: chunked": "two_lengths",
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1\r\n"
    "Content-Length: 1": "repeated_length",
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1, 1": "bad_length",
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: +1": "bad_length",
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0x1": "bad_length",
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nContent-Length: -1": "bad_length",
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: gzip, chunked": (
        "bad_coding"
    ),
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: xchunked": (
        "bad_coding"
    ),
    "POST http://a.example/ HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n"
    "transfer-encoding: identity": "repeated_length",
    "POST http://a.example/ HTTP/1.0\r\nHost: a.example\r\nTransfer-Encoding: chunked": (
        "bad_coding"
    ),
    "CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 5": "connect_with_body",
    "CONNECT a.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked": "connect_with_body",
    # Lines.
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n b.example": "folded_field",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\tb: c": "folded_field",
    "GET http://a.example/ HTTP/1.1\r\nHost : a.example": "bad_field",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n: b": "bad_field",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: a\nHost: b.example": "bad_field",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: a\rHost: b.example": "bad_field",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: a\0b": "bad_field",
    "GET http://a.example/ HTTP/1.1\nHost: a.example": "bad_request_line",
    "GET  http://a.example/ HTTP/1.1\r\nHost: a.example": "bad_request_line",
    "GET http://a.example/ x HTTP/1.1\r\nHost: a.example": "bad_request_line",
    "GET\thttp://a.example/ HTTP/1.1\r\nHost: a.example": "bad_request_line",
    "GET http://a.example/ HTTP/2.0\r\nHost: a.example": "bad_request_line",
    "GET http://a.example/ HTTP/1.1 \r\nHost: a.example": "bad_request_line",
    "GET http://a.example/": "bad_request_line",
    "\r\nGET http://a.example/ HTTP/1.1\r\nHost: a.example": "bad_request_line",
    "G@T http://a.example/ HTTP/1.1\r\nHost: a.example": "bad_request_line",
    "PRI * HTTP/2.0": "bad_request_line",
    # Other protocols on the same connection.
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket": "upgrade",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade": "upgrade",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nHTTP2-Settings: AA": "upgrade",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nConnection: content-length": (
        "bad_connection"
    ),
    # Size.
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: " + "x" * 40_000: "head_too_long",
    "GET http://a.example/ HTTP/1.1\r\nHost: a.example" + "\r\nX: y" * 101: "too_many_fields",
}


@pytest.mark.parametrize("text", REQUESTS, ids=lambda text: repr(text[:60]))
def test_a_request_that_could_be_read_in_two_ways_is_refused(text: str) -> None:
    """No form of smuggling is passed on, and each refusal says which it is."""
    with pytest.raises(Malformed, match=f"^{REQUESTS[text]}$"):
        parse_head(f"{text}\r\n\r\n".encode("latin-1"))


def test_an_absolute_request_goes_on_in_origin_form() -> None:
    """The host is the checked one, hop-by-hop fields stay behind, the connection ends."""
    head = parse_head(
        b"POST http://A.example:8080/v1?q=1 HTTP/1.1\r\nHost: a.example:8080\r\n"
        b"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\n"
        b"Content-Length: 3\r\nX-Key:  k \r\n\r\n"
    )
    assert (head.host, head.port, head.body, head.is_tunnel) == ("a.example", 8080, 3, False)
    assert head.passed == (
        b"POST /v1?q=1 HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 3\r\nX-Key: k\r\n"
        b"Connection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443",
        "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example",
        "CONNECT a.example:443 HTTP/1.0",
        "CONNECT A.EXAMPLE.:443 HTTP/1.1\r\nHost: a.example:443\r\nContent-Length: 0",
    ],
)
def test_a_tunnel_is_asked_for_as_clients_do(text: str) -> None:
    """The spellings of CONNECT that clients use all name the same."""
    head = parse_head(f"{text}\r\n\r\n".encode())
    assert (head.host, head.port, head.is_tunnel) == ("a.example", 443, True)


# --- what follows a head ---------------------------------------------------------


def test_nothing_follows_a_body() -> None:
    """A second request on the connection is refused, wherever the bytes were cut."""
    with pytest.raises(Malformed, match="second_request"):
        Body(3).feed(b"abcGET /")
    body = Body(3)
    assert body.feed(b"abc") == b"abc"
    with pytest.raises(Malformed, match="second_request"):
        body.feed(b"G")


CHUNKED = b"4;x=y\r\nabcd\r\n1\r\ne\r\n0\r\nTrailer: x\r\n\r\n"


@given(st.lists(st.integers(0, len(CHUNKED)), max_size=6))
def test_a_chunked_body_is_followed_however_it_was_cut(cuts: list[int]) -> None:
    """All of it passes unchanged, and a byte behind it is refused."""
    chunks, at = Chunks(), [0, *sorted(cuts), len(CHUNKED)]
    parts = [CHUNKED[a:b] for a, b in pairwise(at) if a < b]
    assert b"".join(map(chunks.feed, parts)) == CHUNKED
    with pytest.raises(Malformed, match="second_request"):
        chunks.feed(b"G")


@pytest.mark.parametrize(
    "data",
    [
        b"4\nabcd",
        b"-1\r\n",
        b"0x4\r\nabcd\r\n",
        b"4 4\r\n",
        b"\r\n",
        b"1\r\nab\r\n",
        b"1\r\r\na\r\n",
    ],
)
def test_a_chunk_that_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    """Sizes have one spelling, lines one end."""
    with pytest.raises(Malformed, match="bad_chunk"):
        Chunks().feed(data)


def client_hello(name: str | None) -> bytes:
    """The first flight of a real TLS client."""
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    if name is None:
        context.verify_mode = ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


def in_records(hello: bytes, size: int) -> bytes:
    """The same handshake cut into records of ``size`` bytes."""
    content = hello[5:]
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(hello[:3] + len(part).to_bytes(2, "big") + part for part in parts)


@given(st.integers(1, 400), st.integers(1, 50))
def test_the_name_in_a_hello_is_that_of_the_tunnel(cut: int, record: int) -> None:
    """However a hello is cut, nothing of it passes before the name in it was compared."""
    hello = in_records(client_hello("api.example.org"), record)
    tunnel = Tunnel("api.example.org", 443)
    assert tunnel.feed(hello[:cut]) == b""
    assert tunnel.feed(hello[cut:]) == hello
    assert tunnel.feed(b"more") == b"more"
    with pytest.raises(Denied, match="other_server_name"):
        Tunnel("other.example.org", 443).feed(hello)


def extended(hello: bytes, kind: int, content: bytes) -> bytes:
    """The same hello with one more extension, behind all others."""
    added = kind.to_bytes(2, "big") + len(content).to_bytes(2, "big") + content
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at]
    size = int.from_bytes(hello[at : at + 2], "big") + len(added)
    body = hello[9:at] + size.to_bytes(2, "big") + hello[at + 2 :] + added
    handshake = hello[5:6] + len(body).to_bytes(3, "big") + body
    return hello[:3] + len(handshake).to_bytes(2, "big") + handshake


def name_extension(*names: bytes) -> bytes:
    """The content of an extension that asks for servers of these names."""
    entries = b"".join(b"\0" + len(name).to_bytes(2, "big") + name for name in names)
    return len(entries).to_bytes(2, "big") + entries


ENCRYPTED_HELLO = 0xFE0D


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a.example", None), ("b.example", "other_server_name"), (None, "other_server_name")],
)
def test_a_hello_with_another_one_in_it_is_judged_by_what_shows(
    name: str | None, reason: str | None
) -> None:
    """What is encrypted (ECH) is read by the host that was connected to, and by nobody else."""
    hello = extended(client_hello(name), ENCRYPTED_HELLO, b"\0" * 64)
    tunnel = Tunnel("a.example", 443)
    if reason is None:
        assert tunnel.feed(hello) == hello
    else:
        with pytest.raises(Denied, match=f"^{reason}$"):
            tunnel.feed(hello)


BEGINNINGS: dict[str, tuple[str, Callable[[], bytes], int]] = {
    "no name": ("other_server_name", lambda: client_hello(None), 443),
    "plain": ("not_tls", lambda: b"GET / HTTP/1.1\r\n", 443),
    "plain elsewhere": ("not_tls", lambda: b"SSH-2.0-x\r\n", 8443),
    "other port": ("other_server_name", lambda: client_hello("b.example"), 9000),
    "torn": ("bad_hello", lambda: b"\x16\x03\x01\x00\x04\x01\x00\x00\x00", 443),
    "two names": (
        "bad_hello",
        lambda: extended(client_hello("a.example"), 0, name_extension(b"b.example")),
        443,
    ),
    "two names in one": (
        "bad_hello",
        lambda: extended(client_hello(None), 0, name_extension(b"a.example", b"b.example")),
        443,
    ),
    "a name of another kind": (
        "bad_hello",
        lambda: extended(client_hello(None), 0, b"\0\x0c\1\0\x09a.example"),
        443,
    ),
    "a name that is none": (
        "bad_hello",
        lambda: extended(client_hello(None), 0, name_extension(b"\xff.example")),
        443,
    ),
    "a part of a name": (
        "other_server_name",
        lambda: extended(client_hello(None), 0, name_extension(b"a.example\0.b.example")),
        443,
    ),
    "SSL 2": ("not_tls", lambda: b"\x80\x2e\x01\x03\x01" + b"\0" * 41, 443),
    "no hello": ("bad_hello", lambda: b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", 443),
    "alert between": (
        "bad_hello",
        lambda: client_hello("a.example")[:5] + b"x" * 999 + b"\x15\x03\x01\x00\x02\x02\x28",
        443,
    ),
    "endless": ("bad_hello", lambda: b"\x16\x03\x01\xff\xff" + b"\x01\xff\xff\xff" * 20_000, 443),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_what_is_no_hello_to_the_host_ends_the_tunnel(name: str) -> None:
    """A tunnel to a TLS port begins with TLS to its host; elsewhere, if with TLS, to its host."""
    reason, made, port = BEGINNINGS[name]
    with pytest.raises(Denied, match=f"^{reason}$"):
        Tunnel("a.example", port).feed(made())


def test_other_protocols_pass_on_other_ports() -> None:
    """A tunnel to a port that is not for TLS carries what its host understands."""
    assert Tunnel("a.example", 22).feed(b"SSH-2.0-x\r\n") == b"SSH-2.0-x\r\n"


# --- rules -----------------------------------------------------------------------


def rules(*destinations: str, public: bool = False, **names: tuple[str, ...]) -> Rules:
    """Rules for ``host:port`` or ``host:port=address``, with a resolver that knows ``names``."""
    made = []
    for text in destinations:
        place, _, address = text.partition("=")
        host, _, port = place.rpartition(":")
        made.append({"host": host, "port": int(port), "address": address or None})
    known = {name.replace("_", "."): addresses for name, addresses in names.items()}
    return Rules(
        {"public": public, "destinations": made},
        lambda name, _port: [ip_address(each) for each in known[name]],
        lambda address: str(address) == "8.8.4.4",
    )


ALLOWED = [
    (rules("a.x:443", a_x=("1.1.1.1", "2606:4700::1")), "a.x", 443, ["1.1.1.1", "2606:4700::1"]),
    (rules("*.x:443", b_a_x=("1.1.1.1",)), "b.a.x", 443, ["1.1.1.1"]),
    (rules(public=True, a_x=("1.1.1.1",)), "a.x", 22, ["1.1.1.1"]),
    (rules(public=True), "1.1.1.1", 22, ["1.1.1.1"]),
    (rules("127.0.0.1:8080"), "127.0.0.1", 8080, ["127.0.0.1"]),
    (rules("[::1]:8080"), "[::1]", 8080, ["::1"]),
    (rules("10.0.0.7:80", public=True), "10.0.0.7", 80, ["10.0.0.7"]),
    (rules("a.x:80=10.0.0.7"), "a.x", 80, ["10.0.0.7"]),
    (rules("a.x:80", "10.0.0.7:80", a_x=("10.0.0.7",)), "a.x", 80, ["10.0.0.7"]),
]
DENIED = [
    (rules("a.x:443"), "b.x", 443, "not_allowed"),
    (rules("a.x:443"), "a.x", 80, "not_allowed"),
    (rules("*.x:443"), "x", 443, "not_allowed"),
    (rules("*.x:443"), "evilx", 443, "not_allowed"),
    (rules("a.x:443"), "1.1.1.1", 443, "not_allowed"),
    (rules("127.0.0.1:8080"), "127.0.0.1", 8081, "not_allowed"),
    (rules("127.0.0.1:8080"), "[::ffff:127.0.0.1]", 8080, "not_allowed"),
    (rules("a.x:80=127.0.0.1"), "127.0.0.1", 80, "not_allowed"),
    (rules(public=True), "127.0.0.1", 80, "not_public"),
    (rules(public=True), "[::ffff:127.0.0.1]", 80, "not_public"),
    (rules(public=True), "169.254.169.254", 80, "metadata_or_link_local"),
    (rules(public=True), "[::ffff:a9fe:a9fe]", 80, "metadata_or_link_local"),
    (rules(public=True), "[::a9fe:a9fe]", 80, "metadata_or_link_local"),
    (rules(public=True), "[64:ff9b::a9fe:a9fe]", 80, "metadata_or_link_local"),
    (rules(public=True), "[2002:a9fe:a9fe::]", 80, "metadata_or_link_local"),
    (rules(public=True), "[fd00:ec2::254]", 80, "metadata_or_link_local"),
    (rules(public=True), "[64:ff9b::7f00:1]", 80, "not_public"),
    (rules(public=True), "[2002:7f00:1::]", 80, "not_public"),
    (rules(public=True), "[::7f00:1]", 80, "not_public"),
    (rules(public=True), "[::ffff:808:404]", 80, "this_machine"),
    (rules(public=True), "[64:ff9b::808:404]", 80, "this_machine"),
    (rules(public=True), "8.8.4.4", 80, "this_machine"),
    (rules(public=True, a_x=("64:ff9b::7f00:1",)), "a.x", 80, "resolves_not_public"),
    (
        rules(public=True, a_x=("1.1.1.1", "::ffff:a9fe:a9fe")),
        "a.x",
        80,
        "resolves_metadata_or_link_local",
    ),
    (rules(public=True, localhost=("127.0.0.1",)), "localhost", 80, "resolves_not_public"),
    (rules("a.x:443", a_x=("10.0.0.1",)), "a.x", 443, "resolves_not_public"),
    (rules("a.x:443", a_x=("1.1.1.1", "127.0.0.1")), "a.x", 443, "resolves_not_public"),
    (rules("a.x:443", a_x=("8.8.4.4",)), "a.x", 443, "resolves_this_machine"),
    (rules("a.x:443", a_x=("fe80::1",)), "a.x", 443, "resolves_metadata_or_link_local"),
    # Not even by name.
    (rules("169.254.169.254:80"), "169.254.169.254", 80, "metadata_or_link_local"),
    (rules("a.x:80=169.254.169.254"), "a.x", 80, "metadata_or_link_local"),
]


@pytest.mark.parametrize(("made", "host", "port", "places"), ALLOWED)
def test_what_the_policy_names_is_connected_to(
    made: Rules, host: str, port: int, places: list[str]
) -> None:
    """Names by their addresses, addresses by themselves, private ones where they are named."""
    assert list(map(str, made.places(parse_host(host), port))) == places


@pytest.mark.parametrize(("made", "host", "port", "reason"), DENIED)
def test_what_the_policy_does_not_name_is_denied(
    made: Rules, host: str, port: int, reason: str
) -> None:
    """Other hosts, other ports, and names that lead where only an address may."""
    with pytest.raises(Denied, match=f"^{reason}$"):
        made.places(parse_host(host), port)


def test_a_name_is_resolved_once() -> None:
    """What was checked is what is connected to: a second answer is not heard."""
    answers = [[ip_address("1.1.1.1")], [ip_address("127.0.0.1")]]
    policy = {"public": False, "destinations": [{"host": "a.x", "port": 443}]}
    made = Rules(policy, lambda _name, _port: answers.pop(0), lambda _address: False)
    assert list(map(str, made.places("a.x", 443))) == ["1.1.1.1"]
    assert len(answers) == 1
    with pytest.raises(Denied, match="resolves_not_public"):
        made.places("a.x", 443)
