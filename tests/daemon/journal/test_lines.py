"""How one journal line is written, cut, masked and read back."""

import json
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from coachman.wire import MAX_EVENT_BYTES
from coachmand.journal.lines import (
    Entry,
    decode,
    decode_cursor,
    encode,
    encode_cursor,
    seq_of,
)
from coachmand.journal.log import Journal
from coachmand.redaction import Redactor

HEAD = {"type": "agent.notice", "seq": 7, "ts": 1, "run": "r", "n": 3}
REFERENCE = {"attempt": 1, "stream": "stdout", "offset": 10, "bytes": 999_999}
SECRETS = ('sk-"very\\secret', "-----BEGIN\nof a key\t\x7f", "schlüssel-é")
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(members=st.dictionaries(st.text(min_size=1, max_size=8), JSON_VALUES, max_size=5))
def test_a_line_is_read_back_as_it_was_written(members: dict[str, object]) -> None:
    """Any members survive, on one line whose seq is found without reading it all."""
    event = {**HEAD, **{f"x{name}": value for name, value in members.items()}}
    line = encode(event)

    assert b"\n" not in line
    assert decode(line) == event
    assert seq_of(line) == 7


def test_text_that_is_too_long_is_cut_and_says_where_the_whole_lies() -> None:
    """An event of up to 256 KiB is whole; one byte more is cut and carries a reference."""
    room = MAX_EVENT_BYTES - len(encode({**HEAD, "text": ""}))
    whole, cut = encode({**HEAD, "text": "x" * room}), encode({**HEAD, "text": "x" * (room + 1)})
    long = encode({**HEAD, "text": "é" * MAX_EVENT_BYTES}, REFERENCE)

    assert len(whole) == MAX_EVENT_BYTES
    assert "cut" not in decode(whole)
    assert "cut" in decode(cut)
    assert decode(long)["cut"] == REFERENCE
    assert decode(long)["text"].strip("é") == ""
    assert len(long) <= MAX_EVENT_BYTES


@pytest.mark.parametrize(
    "value", [["y" * 60_000] * 1000, {str(n): "\x01" * 20_000 for n in range(100)}]
)
def test_no_event_is_longer_than_its_limit(value: object) -> None:
    """What stays too long when its strings were cut keeps its envelope and the reference."""
    line = encode({**HEAD, "raw": value}, REFERENCE)

    assert len(line) <= MAX_EVENT_BYTES
    assert {name: decode(line)[name] for name in HEAD} == HEAD
    assert decode(line)["cut"] == REFERENCE


def test_a_lone_surrogate_does_not_stop_the_journal() -> None:
    """Text that UTF-8 cannot hold is written with a replacement, in keys as in values."""
    event = decode(encode({**HEAD, "text": "a\ud800b", "raw": {"\udfff": ["\ud800"]}}))

    assert event["text"] == "a\ufffdb"
    assert event["raw"] == {"\ufffd": ["\ufffd"]}


def test_a_cursor_is_read_back_and_anything_else_refused() -> None:
    """Cursors name run and seq; what is none is a ValueError."""
    assert decode_cursor(encode_cursor("261129-222918-z75fr", 12)) == ("261129-222918-z75fr", 12)
    for wrong in ("", "1.run", "2.run.3", "1..3", "1.run.x", "1.run.3.4"):
        with pytest.raises(ValueError, match=r".*"):
            decode_cursor(wrong)


@pytest.mark.parametrize("secret", SECRETS)
async def test_secrets_are_masked_in_every_line_whatever_holds_them(
    tmp_path: Path, secret: str
) -> None:
    """A known secret never reaches disk or reader, nor does masking harm the line."""
    journal = Journal(tmp_path / "events.ndjson", "r", Redactor([secret]))
    members = {"text": f"it is {secret}!", "raw": {secret: [secret, {"deep": f"x{secret}x"}]}}
    await journal.append([Entry("agent.unknown", members)], {"session": secret})
    [line] = journal.recent(0, 10) or []
    journal.close()
    on_disk = await trio.Path(tmp_path / "events.ndjson").read_bytes()
    event = json.loads(on_disk)

    assert on_disk == line.data + b"\n"
    assert on_disk.count(b"***") >= 5
    assert secret not in json.dumps(event, ensure_ascii=False)
    # It is as long as what it hides was in JSON.
    stars = "*" * len(json.dumps(secret, ensure_ascii=False)[1:-1].encode())
    assert event["text"] == f"it is {stars}!"
    assert event["session"] == stars
