"""Hosts as requests spell them, and which addresses may be connected to. Pure."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

TYPE_CHECKING = False
if TYPE_CHECKING:
    Address = IPv4Address | IPv6Address

MAX_NAME_CHARACTERS = 253
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
# What resolvers of the C library take for a number: 0x7f000001, 017700000001, 127.1.
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")

# No destination that is public: the special-purpose registries of RFC 6890 and later ones.
NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
PUBLIC_V6 = IPv6Network("2000::/3")
NOT_PUBLIC_V6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "3fff::/20")))
# What a machine in a cloud is told its secrets by; the last ones look public.
METADATA = frozenset(
    {
        IPv4Address("169.254.169.254"),
        IPv4Address("169.254.170.2"),
        IPv4Address("100.100.100.200"),
        IPv4Address("168.63.129.16"),
        IPv6Address("fd00:ec2::254"),
    }
)
LINK_LOCAL = (IPv4Network("169.254.0.0/16"), IPv6Network("fe80::/10"))

_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
# The interface identifiers of ISATAP, with an IPv4 address behind them.
_ISATAP = (bytes.fromhex("00005efe"), bytes.fromhex("02005efe"))


class Unfit(ValueError):  # noqa: N818 - says what the host is
    """A host that names nothing: the text is the reason, one word of docs/network.md."""


def parse_host(text: str) -> str | Address:
    """A name in its one spelling, or an address. Raises Unfit.

    Only the usual spelling of an address is one. Whatever else a resolver would take for a
    number is refused, and so are zone ids and names that are not in ASCII.
    """
    if text.startswith("["):
        return _bracketed(text)
    name = text.lower()
    if not name.isascii():
        raise Unfit("not_ascii")
    name = name[:-1] if name.endswith(".") else name
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _dotted(text)
    if len(name) > MAX_NAME_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
        raise Unfit("bad_host")
    return name


def _bracketed(text: str) -> Address:
    if "%" in text:
        raise Unfit("zone_id")
    try:
        return IPv6Address(text[1:-1] if text.endswith("]") else "")
    except ValueError:
        raise Unfit("bad_host") from None


def _dotted(text: str) -> Address:
    try:
        return IPv4Address(text)
    except ValueError:
        raise Unfit("address_form") from None


def spelled(host: str | Address) -> str:
    """The host as it is written in a log, and before a port."""
    return f"[{host}]" if isinstance(host, IPv6Address) else str(host)


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, else itself."""
    if isinstance(address, IPv4Address):
        return address
    if (inner := address.ipv4_mapped or address.sixtofour) is not None:
        return inner
    packed = address.packed
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return IPv4Address(packed[12:])
    if packed[8:12] in _ISATAP:
        return IPv4Address(packed[12:])
    return address


def is_forbidden(address: Address) -> bool:
    """Whether not even a policy that names it reaches it: link-local, metadata."""
    inner = unwrapped(address)
    return any(each in METADATA or _within(each, LINK_LOCAL) for each in (address, inner))


def is_public(address: Address) -> bool:
    """Whether it is global unicast, and all that it stands for is so, too."""
    inner = unwrapped(address)
    if inner in METADATA:
        return False
    if isinstance(inner, IPv4Address):
        return not _within(inner, NOT_PUBLIC_V4)
    return inner in PUBLIC_V6 and not _within(inner, NOT_PUBLIC_V6)


def _within(address: Address, networks: tuple[IPv4Network | IPv6Network, ...]) -> bool:
    return any(address in network for network in networks)
