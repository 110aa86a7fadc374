"""What counts as a frame, and what is noise on an agent's stdout."""

import json

import pytest

from agents_peer import Peer, prompted
from agents_replay import events_of, text_of
from coachman_adapters.acp import frames
from coachman_adapters.acp.frames import Notification, Request, Response

UPDATE = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}}}'  # noqa: E501


@pytest.mark.parametrize(
    "line",
    [
        b"Loaded cached credentials.",
        b"\x1b[2J\x1b[31mbanner",
        b"42",
        b'"text"',
        b"null",
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"result":{}}]',
        b"{}",
        b'{"level":"info","id":1,"result":"ok"}',
        b'{"level":30,"msg":"hello"}',
        b'{"jsonrpc":"1.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":true,"result":{}}',
        b'{"jsonrpc":"2.0","id":{},"result":{}}',
        b'{"error":"boom"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}',
        b'{"jsonrpc":"2.0","id":1,"result":NaN}',
        b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 100_000,
        b'{"jsonrpc":"2.0","method":"x","params":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"a":"' + rb"\"" * 200 + b"{" * 200,
        b"{" + b'"' * 1001,
    ],
    ids=lambda line: repr(line[:40]),
)
def test_lines_that_are_no_frame(line: bytes) -> None:
    """Logs, fragments, scalars, batches and hostile nesting are noise, never a frame."""
    assert frames.decode(line) is None


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":null}', Response(1, None, None)),
        (b'{"id":"1","result":{}}', Response("1", {}, None)),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', Response(1, {}, None)),
        (b'{"jsonrpc":"2.0","id":1,"error":"x"}', Response(1, None, {"message": "x"})),
        (b'{"jsonrpc":"2.0","method":"m"}', Notification("m", {})),
        (b' {"jsonrpc":"2.0","id":0,"method":"m","params":[1]} ', Request(0, "m", {})),
    ],
)
def test_frames_are_read_leniently(line: bytes, frame: frames.Frame) -> None:
    """A missing version, string ids and odd errors are taken for what they mean."""
    assert frames.decode(line) == frame


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        (rb'"a\ud83d"', "a\ufffd"),
        (rb'"\udc00\ud83d\ude00\\ud83d"', "\ufffd😀\\ud83d"),
        (b'"broken \xff utf-8"', "broken \ufffd utf-8"),
        ('"line\u2028separator"'.encode(), "line\u2028separator"),
    ],
)
def test_broken_characters_do_not_cost_the_line(literal: bytes, text: str) -> None:
    """Lone surrogates and broken UTF-8 become replacement characters."""
    head, tail = UPDATE.encode().split(b"%s")

    actions = prompted().raw(head + literal + tail + b"\r\n")

    assert text_of(actions) == text


def test_brackets_in_text_are_not_nesting() -> None:
    """A long text full of brackets is still a message."""
    text = '[{"' * 1000

    assert text_of(prompted().raw((UPDATE % json.dumps(text)).encode() + b"\n")) == text


def test_a_line_of_a_megabyte_is_split_into_events() -> None:
    """A long chunk loses nothing: it becomes several events, each of a journal's size."""
    text = "zwölf\n" * 80_000

    actions = prompted().raw((UPDATE % json.dumps(text)).encode() + b"\n")

    assert text_of(actions) == text
    assert len(events_of(actions)) > 10
    sizes = [len(json.dumps(event.members)) for event in events_of(actions)]
    assert max(sizes) < 256 * 1024


def test_a_line_of_eight_megabytes_says_where_the_rest_of_it_is() -> None:
    """Of a longer chunk the beginning is told, as what it is, with the place of all of it."""
    text = "zwölf\n" * 1_400_000
    line = (UPDATE % json.dumps(text)).encode()

    actions = prompted().raw(line + b"\n")

    told = text_of(actions)
    assert told.endswith(" [cut]")
    assert text.startswith(told.removesuffix(" [cut]"))
    assert {(event.span.size, event.span.cut) for event in events_of(actions)} == {
        (len(line), True)
    }


def test_noise_before_the_first_frame_is_told_and_forgiven() -> None:
    """Banners and logs around the handshake become noise events with their place."""
    peer = Peer()

    actions = peer.raw(b"migrating database...\n\n42\n")

    told = [(event.members, event.span.offset) for event in events_of(actions, "agent.noise")]
    assert told == [
        ({"bytes": 21, "text": "migrating database..."}, 0),
        ({"bytes": 2, "text": "42"}, 23),
    ]
    peer.initialized()
    assert peer.last["method"] == "session/new"


def test_a_flood_of_noise_is_bundled() -> None:
    """An agent that prints nothing but logs does not flood the journal; all is counted."""
    peer = prompted()

    actions = peer.raw(b"log line\n" * 10_000) + peer.gone()

    noise = events_of(actions, "agent.noise")
    assert len(noise) < 150
    assert sum(event.members["bytes"] for event in noise) == 80_000
    assert sum(event.members.get("lines", 1) for event in noise) == 10_000


def test_an_unterminated_last_line_is_still_read() -> None:
    """What an agent wrote right before it died counts, complete frame or not."""
    whole = prompted()
    whole.raw((UPDATE % '"last words"').encode())
    half = prompted()
    half.raw(b'{"jsonrpc":"2.0","id":3,"resu')

    assert text_of(whole.gone()) == "last words"
    assert events_of(half.gone(), "agent.noise")[0].members["bytes"] == 29
