"""The head of a request to the proxy, read strictly: what could be read in two ways is refused.

Not a general parser: it knows CONNECT and the absolute form, and one request per connection.
"""

from __future__ import annotations

import re

from .addresses import Unfit, parse_host, spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .addresses import Address

MAX_HEAD_BYTES = 32 * 1024
MAX_FIELDS = 100
MAX_LENGTH_DIGITS = 15
END = b"\r\n\r\n"

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - RFC 9110's word for a name
_LINE = re.compile(rf"({_TOKEN}) ([\x21-\x7e]+) HTTP/1\.([01])")
_FIELD = re.compile(rf"({_TOKEN}):([\x20-\x7e\x80-\xff\t]*)")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
# Between this hop and the client only; what they name beyond that is refused.
_OURS = frozenset({"connection", "keep-alive", "proxy-authorization", "proxy-connection", "te"})
_OPTIONS = frozenset({"close", "keep-alive", "te", ""})
_REFUSED_FIELDS = frozenset({"upgrade", "http2-settings"})


class Malformed(Exception):  # noqa: N818 - says what arrived
    """A head that is refused: the text is the reason, one word of docs/network.md."""


class Head:
    """One request: ``host`` and ``port`` to go to, ``passed`` the head to send there.

    ``is_tunnel``: CONNECT, nothing is to be sent. ``body`` is "none", "chunked" or a length.
    """

    def __init__(self, host: str | Address, port: int, passed: bytes, body: str | int) -> None:
        self.host = host
        self.port = port
        self.passed = passed
        self.body = body

    @property
    def is_tunnel(self) -> bool:
        return not self.passed

    def __repr__(self) -> str:
        return f"<Head {spelled(self.host)}:{self.port} body={self.body}>"


Fields = list[tuple[str, str]]


def parse_head(data: bytes) -> Head:
    """The request of a head, which ends with its empty line. Raises Malformed."""
    if len(data) > MAX_HEAD_BYTES:
        raise Malformed("head_too_long")
    method, target, minor, fields = _split(data)
    _check_hops(fields)
    body = _body(fields, minor)
    if method == "CONNECT":
        host, port = _authority(target)
        _check_host(fields, host, port, needed=False)
        if body not in {"none", 0}:
            raise Malformed("connect_with_body")
        return Head(host, port, b"", "none")
    host, port, path = _absolute(target)
    _check_host(fields, host, port, needed=minor == 1)
    return Head(host, port, _passed(method, path, host, port, fields), body)


def _split(data: bytes) -> tuple[str, str, int, Fields]:
    head = data.removesuffix(END)
    # latin-1 keeps every byte; the patterns say which may be there, and no CR or LF is.
    line, *rest = head.decode("latin-1").split("\r\n")
    if any(text[:1] in (" ", "\t") for text in rest):
        raise Malformed("folded_field")
    if (request := _LINE.fullmatch(line)) is None:
        raise Malformed("bad_request_line")
    if len(rest) > MAX_FIELDS:
        raise Malformed("too_many_fields")
    fields: Fields = []
    for text in rest:
        if (field := _FIELD.fullmatch(text)) is None:
            raise Malformed("bad_field")
        fields.append((field[1], field[2].strip(" \t")))
    return request[1], request[2], int(request[3]), fields


def _values(fields: Fields, name: str) -> list[str]:
    return [value for found, value in fields if found.lower() == name]


def _check_hops(fields: Fields) -> None:
    for name, _ in fields:
        if name.lower() in _REFUSED_FIELDS:
            raise Malformed("upgrade")
    options = _values(fields, "connection") + _values(fields, "proxy-connection")
    for option in ",".join(options).lower().split(","):
        if option.strip() == "upgrade":
            raise Malformed("upgrade")
        if option.strip() not in _OPTIONS:
            raise Malformed("bad_connection")


def _body(fields: Fields, minor: int) -> str | int:
    lengths, codings = _values(fields, "content-length"), _values(fields, "transfer-encoding")
    if lengths and codings:
        raise Malformed("two_lengths")
    if len(lengths) > 1 or len(codings) > 1:
        raise Malformed("repeated_length")
    if codings:
        if codings[0].lower() != "chunked" or minor == 0:
            raise Malformed("bad_coding")
        return "chunked"
    if not lengths:
        return "none"
    if not re.fullmatch(rf"[0-9]{{1,{MAX_LENGTH_DIGITS}}}", lengths[0]):
        raise Malformed("bad_length")
    return int(lengths[0])


def _authority(text: str, default: int | None = None) -> tuple[str | Address, int]:
    if "@" in text:
        raise Malformed("userinfo")
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        if default is None:
            raise Malformed("no_port")
        host, port = text, str(default)
    if not _PORT.fullmatch(port) or int(port) > 0xFFFF:
        raise Malformed("bad_port")
    try:
        return parse_host(host), int(port)
    except Unfit as error:
        raise Malformed(str(error)) from None


def _absolute(target: str) -> tuple[str | Address, int, str]:
    scheme, separator, rest = target.partition("://")
    if not separator or target.startswith("/"):
        raise Malformed("not_a_proxy_request")
    if scheme.lower() != "http":
        raise Malformed("bad_scheme")
    authority, path = re.fullmatch(r"([^/?#]*)(.*)", rest).groups()  # type: ignore[union-attr]
    if "#" in path or "\\" in target:
        raise Malformed("bad_target")
    host, port = _authority(authority, 80)
    return host, port, path if path.startswith("/") else f"/{path}"


def _check_host(fields: Fields, host: str | Address, port: int, *, needed: bool) -> None:
    hosts = _values(fields, "host")
    if len(hosts) > 1:
        raise Malformed("repeated_host")
    if not hosts:
        if needed:
            raise Malformed("no_host")
        return
    # Clients leave out the port of the scheme, which CONNECT does not tell.
    usual = port if port in (80, 443) else 80
    if _authority(hosts[0], usual) != (host, port):
        raise Malformed("other_host")


def _passed(method: str, path: str, host: str | Address, port: int, fields: Fields) -> bytes:
    """The head in origin form: the host is the one that was checked, the connection ends."""
    where = spelled(host) + ("" if port == 80 else f":{port}")
    kept = [(n, v) for n, v in fields if n.lower() not in _OURS and n.lower() != "host"]
    lines = [f"{method} {path} HTTP/1.1", f"Host: {where}", *(f"{n}: {v}" for n, v in kept)]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1")
