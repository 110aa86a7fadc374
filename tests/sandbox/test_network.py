"""Networks as data: what words and entries mean, and which network exceeds which."""

import pytest

from coachman_sandbox.network import (
    HOST_NETWORK,
    Destination,
    Network,
    NetworkError,
    check_words,
    parse,
    resolve,
)

AGENT = ("api.example.org:443", "*.llm.example:443", "127.0.0.1:11434")


def made(*words: str) -> Network:
    """The network of these words for an agent with hosts of its own."""
    return resolve(check_words(words), AGENT)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Example.ORG", "example.org:443"),
        ("example.org.:80", "example.org:80"),
        ("bücher.example", "xn--bcher-kva.example:443"),
        ("*.Example.org", "*.example.org:443"),
        ("10.0.0.7:8000", "10.0.0.7:8000"),
        ("[::0001]:80", "[::1]:80"),
        ("::1", "[::1]:443"),
        ("llm.corp:443=10.0.0.7", "llm.corp:443=10.0.0.7"),
        ("llm.corp=::0007", "llm.corp:443=::7"),
    ],
)
def test_an_entry_has_one_spelling(text: str, meant: str) -> None:
    """Names in small letters and punycode, addresses in their shortest form, always a port."""
    assert str(parse(text)) == meant
    assert str(parse(meant)) == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", ":443", "*", "*.", "a.*.b", "**.b", "a b", "a..b", "-a.b", "127.1", "0x7f.1", "1"),
        *("a:0", "a:65536", "a:x", "a:080", "[::1%lo]:80", "a=b", "a=", "10.0.0.1=10.0.0.2"),
        *("*.a=10.0.0.1", "http://a", "u@a", "a/b"),
    ],
)
def test_what_is_no_entry_is_refused(text: str) -> None:
    """A mistake is said, never taken for something near."""
    with pytest.raises(NetworkError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        *(("agnet", "agent is one"), ("Registry", "registries is one"), ("hots", "host is one")),
        *(("nonsense", "as nonsense:443"), ("localhost", "as localhost:443")),
        *(("https://a.b/c", "write a.b:443"), ("http://u@[::1]:8/x", r"write \[::1\]:8")),
        *(("ftp://a.b", "write a.b:PORT"), ("://", "name a destination")),
        ("http://a:x", "name a destination"),
    ],
)
def test_what_was_meant_is_named(text: str, complaint: str) -> None:
    """A word that is misspelt is no host, and of a URL its place is told."""
    with pytest.raises(NetworkError, match=complaint):
        check_words([text])
    assert check_words(["agnet:443", "models=10.0.0.7"]) == ("agnet:443", "models:443=10.0.0.7")


def test_words_are_put_in_one_order() -> None:
    """The same network has the same words, however it was asked for."""
    assert check_words(["b.org", "agent", "a.org:443", "B.org:443"]) == (
        *("agent", "a.org:443", "b.org:443"),
    )
    for alone in ("full", "none", "host"):
        with pytest.raises(NetworkError, match="all by itself"):
            check_words([alone, "a.org"])


def test_localhost_is_every_loopback_address() -> None:
    """Who names it gets both families, as well by the name as by the address."""
    assert list(map(str, made("localhost:80").allowed)) == [
        *("127.0.0.1:80", "[::1]:80", "localhost:80"),
    ]


# From the least to the most.
LADDER = [
    made("none"),
    resolve(("agent",)),
    made("api.example.org:443"),
    made("agent"),
    made("agent", "registries"),
    made("agent", "registries", "10.0.0.7:80"),
    HOST_NETWORK,
]


def test_networks_are_ordered() -> None:
    """Each is within itself and all above it, and exceeds all below it by name."""
    for at, low in enumerate(LADDER):
        for high in LADDER[at:]:
            assert low.beyond(high) is None, (low, high)
        for below in LADDER[:at]:
            assert low.beyond(below), (low, below)


@pytest.mark.parametrize(
    ("child", "parent", "more"),
    [
        (("b.llm.example:443",), ("agent",), None),
        (("b.llm.example:80",), ("agent",), "b.llm.example:80"),
        (("llm.example:443",), ("agent",), "llm.example:443"),
        (("*.b.llm.example:443",), ("agent",), None),
        (("*.example:443",), ("agent",), "*.example:443"),
        (("any.example:22",), ("full",), None),
        (("registries",), ("full",), None),
        (("10.0.0.7:80",), ("full",), "10.0.0.7:80"),
        (("any.example:80=10.0.0.7",), ("full",), "any.example:80=10.0.0.7"),
        (("full",), ("agent",), "full"),
        (("host",), ("full",), "host"),
        (("api.example.org:443=10.0.0.7",), ("agent",), "api.example.org:443=10.0.0.7"),
        (("a.b:80=10.0.0.7",), ("a.b:80=10.0.0.7",), None),
        (("a.b:80=10.0.0.8",), ("a.b:80=10.0.0.7",), "a.b:80=10.0.0.8"),
        (("127.0.0.1:11434",), ("agent",), None),
        (("127.0.0.1:11435",), ("agent",), "127.0.0.1:11435"),
    ],
)
def test_a_destination_beyond_is_named(
    child: tuple[str, ...], parent: tuple[str, ...], more: str | None
) -> None:
    """Suffixes cover what ends so, public covers names, and addresses only themselves."""
    found = made(*child).beyond(made(*parent))
    assert (found is None) if more is None else (found is not None and more in found)


def test_a_destination_is_equal_by_what_it_names() -> None:
    """Two spellings of one host are one entry."""
    assert made("A.org", "a.org:443").allowed == (Destination("a.org", 443),)
