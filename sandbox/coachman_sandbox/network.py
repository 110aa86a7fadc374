"""Which destinations a run may reach: words and entries of a request, as data.

A network is "host" (the host's own namespace), "none", or "gate": an empty namespace, and the
gate with what it lets through. docs/network.md has the words for people.
"""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from ipaddress import IPv6Address, ip_address
from typing import Literal
from urllib.parse import urlsplit

from attrs import evolve, frozen

Kind = Literal["host", "none", "gate"]

AGENT, REGISTRIES, FULL, NONE, HOST = "agent", "registries", "full", "none", "host"
# These say all by themselves.
ALONE = (FULL, NONE, HOST)
WORDS = (AGENT, REGISTRIES, *ALONE)
# What a user is told of them.
WORDS_IN_WORDS = (
    "its words are agent and registries, which go with destinations, and full, none, host, alone"
)
# How much of a word it takes to be near to it.
NEAR = 0.7
TLS_PORT = 443
PORTS = {"http": 80, "https": TLS_PORT, "ws": 80, "wss": TLS_PORT}
# Of how many listeners a keeper makes, the proxy's and those of a loopback in two families.
MAX_LOOPBACK = 24

# Where packages come from, by their managers' defaults.
REGISTRY_HOSTS = (
    *("pypi.org", "files.pythonhosted.org"),
    *("registry.npmjs.org", "registry.yarnpkg.com", "jsr.io", "npm.jsr.io"),
    *("index.crates.io", "static.crates.io", "crates.io", "static.rust-lang.org"),
    *("proxy.golang.org", "sum.golang.org", "go.dev", "dl.google.com"),
    *("rubygems.org", "index.rubygems.org", "repo.maven.apache.org", "repo1.maven.org"),
    *("plugins.gradle.org", "services.gradle.org", "repo.packagist.org", "hex.pm"),
    *("repo.hex.pm", "api.nuget.org", "conda.anaconda.org", "repo.anaconda.com"),
    *("hackage.haskell.org", "cpan.metacpan.org", "pub.dev"),
)

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_FORM = "name a destination as HOST[:PORT], *.SUFFIX[:PORT] or HOST:PORT=ADDRESS"


class NetworkError(ValueError):
    """A network that cannot be made sense of; the text says what is wrong with it."""


@frozen(order=True)
class Destination:
    """One ``host``: a name, "*." and a suffix, or an address (IPv6 in brackets), with its port.

    ``address`` is what a name stands for, whatever a resolver says.
    """

    host: str
    port: int
    address: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" + (f"={self.address}" if self.address else "")

    @property
    def is_address(self) -> bool:
        return is_address(self.host)

    @property
    def is_loopback(self) -> bool:
        """Whether it is a place on the host itself, which is listened for inside as well."""
        return self.is_address and ip_address(self.host.strip("[]")).is_loopback


@frozen
class Network:
    """What one sandbox may reach. ``public``: every public destination, besides ``allowed``."""

    kind: Kind = "host"
    public: bool = False
    allowed: tuple[Destination, ...] = ()

    def __str__(self) -> str:
        if self.kind != "gate":
            return self.kind
        return ",".join(["full"] * self.public + list(map(str, self.allowed))) or "nothing"

    def beyond(self, other: "Network") -> str | None:
        """What of this one goes beyond ``other``, in words; None where nothing does."""
        if other.kind == "host" or self.kind == "none":
            return None
        if self.kind == "host" or other.kind == "none" or (self.public and not other.public):
            return str(self)
        more = [str(each) for each in self.allowed if not other.covers(each)]
        return ",".join(more) or None

    def covers(self, wanted: Destination) -> bool:
        """Whether a destination is among the allowed ones, or public where all of these are."""
        if self.public and wanted.address is None and not wanted.is_address:
            return True
        if wanted in self.allowed or evolve(wanted, address=None) in self.allowed:
            # A name may stand for an address of its own only where it is given that one.
            return wanted.address is None or wanted in self.allowed
        if wanted.is_address or wanted.address is not None:
            return False
        suffixes = [each for each in self.allowed if each.host.startswith("*.")]
        return any(
            each.port == wanted.port and wanted.host.endswith(each.host[1:]) for each in suffixes
        )


HOST_NETWORK = Network("host")


def check_words(words: Iterable[str]) -> tuple[str, ...]:
    """The words and entries of a request in one spelling and order. Raises NetworkError."""
    given = tuple(dict.fromkeys(word.strip().lower() for word in words))
    for word in given:
        if word in ALONE and len(given) > 1:
            others = ", ".join(each for each in given if each != word)
            raise NetworkError(f"{word} says all by itself, without {others}")
    entries = [word if word in WORDS else str(_wanted(word)) for word in given]
    return tuple(sorted(dict.fromkeys(entries), key=lambda word: (word not in WORDS, word)))


def _wanted(text: str) -> Destination:
    """One entry as somebody asks for it: a lone name without a port may be a word misspelt."""
    found = parse(text)
    if "." in found.host or ":" in text or "=" in text:
        return found
    near = get_close_matches(text, WORDS, 1, NEAR)
    if near:
        raise NetworkError(f"there is no word {text}: {near[0]} is one")
    raise NetworkError(
        f"{text} is none of the words {', '.join(WORDS)}: a host of that name is written with its "
        f"port, as {found}"
    )


def parse(text: str) -> Destination:
    """One entry. Without a port it is 443. Raises NetworkError."""
    if "://" in text:
        raise NetworkError(f"{text!r} is a URL{_in_place_of(text)}")
    place, equals, address = text.partition("=")
    host, port = _split(place)
    if host.startswith("*."):
        host = "*." + _name(host[2:], text)
    elif not is_address(host):
        host = _name(host, text)
    if not equals:
        return Destination(_bracketed(host), port)
    if not is_address(address) or is_address(host) or host.startswith("*."):
        raise NetworkError(f"{text!r} gives no name an address: {_FORM}")
    return Destination(host, port, str(ip_address(address.strip("[]"))))


def _in_place_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS.get(parts.scheme) or "PORT"
    except ValueError:
        return f": {_FORM}"
    return f": write {_bracketed(parts.hostname)}:{port}" if parts.hostname else f": {_FORM}"


def _split(place: str) -> tuple[str, int]:
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]") or is_address(place):
        return place, TLS_PORT
    if not _PORT.fullmatch(port) or int(port) > 0xFFFF:
        raise NetworkError(f"{place!r} has no port from 1 to 65535: {_FORM}")
    return host, int(port)


def is_address(host: str) -> bool:
    """Whether it is an address in its usual spelling."""
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return "%" not in host


def _bracketed(host: str) -> str:
    if not is_address(host):
        return host
    address = ip_address(host.strip("[]"))
    return f"[{address}]" if isinstance(address, IPv6Address) else str(address)


def _name(text: str, whole: str) -> str:
    try:
        name = text if text.isascii() else text.encode("idna").decode()
    except UnicodeError:
        raise NetworkError(f"{whole!r} is no host: {_FORM}") from None
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if not all(map(_LABEL.fullmatch, labels)) or _NUMBER.fullmatch(labels[-1]):
        raise NetworkError(f"{whole!r} is no host: {_FORM}")
    return name


def resolve(words: Sequence[str], agent: Iterable[str] = ()) -> Network:
    """The network that checked ``words`` mean for an agent with these entries of its own."""
    if HOST in words:
        return HOST_NETWORK
    if NONE in words:
        return Network("none")
    entries = [word for word in words if word not in WORDS]
    entries += list(agent) if AGENT in words or FULL in words else []
    entries += REGISTRY_HOSTS if REGISTRIES in words else ()
    allowed = {each for entry in entries for each in _meant(parse(entry))}
    network = Network("gate", FULL in words, tuple(sorted(allowed, key=str)))
    if len(list(loopback(network))) > MAX_LOOPBACK:
        raise NetworkError(f"more than {MAX_LOOPBACK} services of this machine are named")
    return network


def _meant(entry: Destination) -> tuple[Destination, ...]:
    """What an entry stands for: this machine is named by each of its loopback addresses."""
    if entry.host != "localhost":
        return (entry,)
    return (entry, Destination("127.0.0.1", entry.port), Destination("[::1]", entry.port))


def loopback(network: Network) -> Iterable[Destination]:
    """The services of this machine that are reached at the same address inside."""
    return (each for each in network.allowed if each.is_loopback)
