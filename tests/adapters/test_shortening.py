"""Long lines made short: what is kept is true, and does not depend on how bytes arrived."""

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coachman_adapters import jsonlines, shortening
from coachman_adapters.lines import WHOLE_BYTES, LineDecoder
from coachman_adapters.shortening import Shortener

MEBIBYTE = 1024 * 1024
MEMORY_BYTES = 6 * MEBIBYTE
TEXT = st.text('ab"\\/\n\u2028é😀\x00', max_size=12)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6), st.dictionaries(st.text("kxyz", max_size=3), inner, max_size=6)
    ),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text("kxyz", max_size=3), VALUES, max_size=6)
CUTS = st.lists(st.integers(1, 9), min_size=1, max_size=9)
# Whatever the line is, whole or not.
LINES = st.one_of(
    st.tuples(OBJECTS, st.booleans()).map(lambda o: json.dumps(o[0], ensure_ascii=o[1]).encode()),
    st.lists(st.sampled_from([*b'{}[],:"\\ua1d8 ', 0xC3])).map(lambda b: b"{" + bytes(b)),
    st.binary(max_size=40),
)


@contextmanager
def small() -> Iterator[None]:
    """Limits that small lines reach as well."""
    limits = {"STRING_BYTES": 9, "SHORT_BYTES": 3, "MAX_ITEMS": 3, "SHALLOW": 2}
    with mock.patch.multiple(shortening, **limits, DEEP_BYTES=30, MOST_BYTES=200, MAX_DEPTH=9):
        yield


def pieces(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    start = number = 0
    while start < len(data):
        size = sizes[number % len(sizes)]
        yield data[start : start + size]
        start, number = start + size, number + 1


def shortened(chunks: Iterator[bytes]) -> bytes:
    shortener = Shortener()
    for chunk in chunks:
        shortener.feed(chunk)
    return shortener.line


def is_beginning(short: Any, whole: Any) -> bool:
    """Whether ``short`` is ``whole`` with less in it, each part a beginning of what there was."""
    if isinstance(whole, dict) and isinstance(short, dict):
        paired = zip(short.items(), whole.items(), strict=False)
        return len(short) <= len(whole) and all(
            a == c and is_beginning(b, d) for (a, b), (c, d) in paired
        )
    if isinstance(whole, list) and isinstance(short, list):
        return len(short) <= len(whole) and all(map(is_beginning, short, whole))
    if isinstance(whole, str) and isinstance(short, str) and short != whole:
        return short.endswith(" [cut]") and whole.startswith(short[:-6].rstrip("\ufffd"))
    return bool(short == whole)


@example(b"\x00{", [1])
@given(LINES, CUTS)
def test_what_is_kept_does_not_depend_on_chunks(line: bytes, sizes: list[int]) -> None:
    """Any chunking of any line gives the same."""
    with small():
        assert shortened(pieces(line, sizes)) == shortened(iter([line]))


@given(LINES, CUTS, st.integers(0, 30))
def test_a_restored_shortener_goes_on(line: bytes, sizes: list[int], at: int) -> None:
    """A snapshot taken as JSON between any two chunks goes on to the same."""
    with small():
        chunks, first = list(pieces(line, sizes)), Shortener()
        for chunk in chunks[:at]:
            first.feed(chunk)
        second = Shortener.restore(json.loads(json.dumps(first.snapshot())))
        for chunk in chunks[at:]:
            second.feed(chunk)

        assert second.line == shortened(iter(chunks))


@given(OBJECTS, st.booleans())
def test_what_is_kept_was_said(whole: dict[str, Any], ascii_only: bool) -> None:
    """The short line is JSON, and holds beginnings of what the long one held, nothing else."""
    line = json.dumps(whole, ensure_ascii=ascii_only).encode()
    with small():
        short = jsonlines.decode(shortened(iter([line])))

    # Where even the short one would be too long there is none.
    assert short is None or is_beginning(short, whole)
    assert jsonlines.decode(shortened(iter([line]))) == whole


LONG = {
    "a string": b'"' + b"y" * 20 * MEBIBYTE + b'"',
    "escapes": b'"' + rb"\ud83d\ude00" * MEBIBYTE + b'"',
    "brackets": b"[" + b"[],{},[]," * 150_000 + b"0]",
    "numbers": b"[" + b"1," * MEBIBYTE + b"0]",
    "messages": json.dumps([{"role": "user", "content": "z" * 9000}] * 2000).encode(),
}


@pytest.mark.parametrize("bulk", LONG.values(), ids=LONG)
def test_what_follows_the_bulk_is_kept(bulk: bytes) -> None:
    """A frame of many megabytes is decoded with all that matters in it, in little memory."""
    line = b'{"method":"m","params":{"more":' + bulk + b',"status":"done"},"id":7}\n'
    decoder = LineDecoder()
    chunks = list(pieces(line, [64 * 1024]))
    tracemalloc.start()
    [told] = [line for chunk in chunks for line in decoder.feed(chunk)]
    frame = jsonlines.decode(told.data or b"")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert frame is not None
    assert (frame["id"], frame["params"]["status"]) == (7, "done")
    assert (told.span.cut, told.span.size) == (True, len(line) - 1)
    assert peak < MEMORY_BYTES


def test_only_what_is_beyond_a_megabyte_is_shortened() -> None:
    """A line of exactly as much is told as it was said."""
    line = b'{"a": "' + b"x" * (WHOLE_BYTES - 9) + b'"}'
    [whole] = LineDecoder().feed(line + b"\n")
    [longer] = LineDecoder().feed(line + b" \n")

    assert (whole.data, whole.span.cut) == (line, False)
    assert longer.span.cut
    assert len(longer.data or b"") < len(line) // 2


def test_a_long_line_that_is_no_object_keeps_its_beginning() -> None:
    """Of a megabyte of text the first bytes are shown."""
    [line] = LineDecoder().feed(b"log: " + b"x" * 3 * MEBIBYTE + b"\n")

    assert (line.data or b"").startswith(b"log: xxx")
    assert len(line.data or b"") == 1024
