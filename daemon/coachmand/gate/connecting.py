"""Names to addresses, and connections to these: the only place that touches the network."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from .rules import Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .addresses import Address

CONNECT_LIMIT_S = 20.0
MAX_ADDRESSES = 8


def resolve(name: str, port: int) -> list[Address]:
    """The addresses of a name, as this machine resolves it. Raises Unreachable."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"cannot resolve {name}: {error.strerror}") from None
    texts = dict.fromkeys(str(place[4][0]) for place in found)
    # With a zone an address is link-local, and refused as such.
    return [ip_address(text.partition("%")[0]) for text in texts][:MAX_ADDRESSES]


def is_local(address: Address) -> bool:
    """Whether it is one of this machine's own: the kernel would send from it to it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return str(probe.getsockname()[0]) == str(address)
    except OSError:
        return False


def connect(addresses: list[Address], port: int) -> socket.socket:
    """A connection to the first of the checked addresses that takes one. Raises Unreachable."""
    why = "no address"
    for address in addresses:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.settimeout(CONNECT_LIMIT_S)
        try:
            connection.connect((str(address), port))
        except OSError as error:
            why = f"{address}: {error.strerror or 'no answer'}"
            connection.close()
            continue
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    raise Unreachable(f"cannot connect to {why}")
