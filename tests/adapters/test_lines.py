"""The line decoder: what a line is does not depend on how its bytes arrived."""

import json

from hypothesis import given
from hypothesis import strategies as st

from coachman_adapters.conversation import Span
from coachman_adapters.lines import Line, LineDecoder, noise

MEBIBYTE = 1024 * 1024
STREAM = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\r\n", b"\xe2\x80\xa8", b"xyz" * 9]))
CUTS = st.lists(st.integers(1, 7), min_size=1, max_size=20)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """``data`` in pieces of the given sizes, over and over."""
    found, start = [], 0
    while start < len(data):
        size = sizes[len(found) % len(sizes)]
        found.append(data[start : start + size])
        start += size
    return found


def decode(decoder: LineDecoder, chunks: list[bytes]) -> list[Line]:
    return [line for chunk in chunks for line in decoder.feed(chunk)] + decoder.finish()


@given(STREAM.map(b"".join), CUTS)
def test_lines_do_not_depend_on_chunks(data: bytes, sizes: list[int]) -> None:
    """Any chunking of the bytes gives the same lines at the same offsets."""
    whole = decode(LineDecoder(limit=20), [data])

    assert decode(LineDecoder(limit=20), pieces(data, sizes)) == whole


@given(STREAM.map(b"".join), CUTS, st.integers(0, 30))
def test_a_restored_decoder_goes_on(data: bytes, sizes: list[int], at: int) -> None:
    """A snapshot taken between any two chunks continues to the same lines."""
    chunks = pieces(data, sizes)
    first = LineDecoder(limit=20)
    before = [line for chunk in chunks[:at] for line in first.feed(chunk)]
    second = LineDecoder(limit=20)
    second.restore(json.loads(json.dumps(first.snapshot())))

    assert before + decode(second, chunks[at:]) == decode(LineDecoder(limit=20), [data])


def test_spans_are_absolute_and_lead_to_the_line() -> None:
    """A span cuts exactly the line's bytes out of the stream, carriage return included."""
    data = "one\r\n\nzwölf\u2028more\nlast".encode()

    lines = decode(LineDecoder(), [data])

    cut = [data[line.span.offset : line.span.offset + line.span.size] for line in lines]
    assert cut == [b"one\r", b"", "zwölf\u2028more".encode(), b"last"]
    assert [line.data for line in lines] == [b"one", b"", "zwölf\u2028more".encode(), b"last"]


def test_a_line_beyond_the_limit_is_let_go() -> None:
    """An over-long line is not held in memory; its place and size are told when it ends."""
    decoder = LineDecoder(limit=MEBIBYTE)
    for _ in range(8):
        assert decoder.feed(b"x" * MEBIBYTE) == []
    assert len(json.dumps(decoder.snapshot())) < 200

    lines = decoder.feed(b"y\nnext\n")

    assert lines == [
        Line(Span(0, 8 * MEBIBYTE + 1, cut=True), None),
        Line(Span(8 * MEBIBYTE + 2, 4), b"next"),
    ]
    assert noise(lines[0]).members == {"bytes": 8 * MEBIBYTE + 1}


def test_noise_shows_its_beginning() -> None:
    """A noise event tells size and a short preview, whatever the bytes are."""
    event = noise(Line(Span(5, 4000), b"\xff\x1b[31m" + b"x" * 3994))

    assert event.members["bytes"] == 4000
    assert event.members["text"].startswith("\ufffd\x1b[31mxxx")
    assert len(event.members["text"]) == 1024
    assert event.span == Span(5, 4000)
