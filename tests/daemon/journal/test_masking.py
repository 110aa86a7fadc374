"""Secrets in what an agent says, however it is cut into pieces."""

import base64
import json
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from coachmand.journal.lines import Entry
from coachmand.journal.masking import ChunkMask
from coachmand.redaction import MIN_SECRET_BYTES, Redactor

SECRETS = ("sk-live-0123456789", "päss-wörd-ünïcode", "aaaaaaaaab")
TURN_ENDED = Entry("turn.ended", {"stop_reason": "end_turn"})


def said(mask: ChunkMask, pieces: list[str]) -> str:
    """The text that is written when an agent says ``pieces`` and ends its turn."""
    entries = [Entry("agent.message_chunk", {"text": piece}) for piece in pieces]
    written = [out for entry in [*entries, TURN_ENDED] for out in mask.take([entry])]
    assert written[-1] == TURN_ENDED
    assert not mask.holding
    return "".join(entry.members.get("text", "") for entry in written)


@st.composite
def cut_texts(draw: st.DrawFn) -> list[str]:
    """A text with secrets in it, cut anywhere."""
    parts = draw(st.lists(st.sampled_from([*SECRETS, "a", "sk-", "sk-live-01", "ü", " "])))
    text = "".join(parts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)))))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(cut_texts())
def test_no_way_of_cutting_shows_a_secret(pieces: list[str]) -> None:
    """What is written is the masked whole, at equal length, and a long beginning at its end too."""
    redactor = Redactor(SECRETS)
    expected = redactor.mask("".join(pieces).encode())
    begun = redactor.begun(expected)
    if begun >= MIN_SECRET_BYTES:
        expected = expected[:-begun] + b"*" * begun

    written = said(ChunkMask(redactor), pieces)

    assert written == expected.decode()
    assert not any(secret in written for secret in SECRETS)


@given(cut_texts(), st.lists(st.booleans()))
def test_what_is_said_between_does_not_bring_a_secret_together(
    pieces: list[str], between: list[bool]
) -> None:
    """A message that is put together again over other lines holds no whole secret."""
    mask, written = ChunkMask(Redactor(SECRETS)), list[Entry]()
    for number, piece in enumerate(pieces):
        written += mask.take([Entry("agent.message_chunk", {"text": piece})])
        if number < len(between) and between[number]:
            written += mask.take([Entry("agent.noise", {"bytes": 1})])
            assert not mask.holding
    written += mask.take([TURN_ENDED])
    text = "".join(entry.members.get("text", "") for entry in written)

    assert len(text.encode()) == len("".join(pieces).encode())
    assert not any(secret in text for secret in SECRETS)


@given(st.text("ab/+=ü\n", max_size=4), st.text("ab/+=ü\n", max_size=4))
def test_the_usual_ways_to_write_a_secret_are_masked_as_well(before: str, after: str) -> None:
    """As JSON, in a URL and in base64, of either alphabet and at every alignment."""
    secret = 'se/cr+et="0123\n4567ü'
    whole = (before + secret + after).encode()
    redactor = Redactor([secret])
    shown = [
        json.dumps(before + secret + after),
        json.dumps(before + secret + after).replace("/", "\\/"),
        quote(before + secret + after, safe=""),
    ]
    kept = [
        json.dumps(secret)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        quote(secret, ""),
    ]
    for text, form in zip(shown, kept, strict=True):
        assert form not in redactor.mask(text.encode()).decode()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        # The characters at its edges hold bits of what stands beside it.
        stars = redactor.mask(encode(whole)).count(b"*")
        assert stars >= len(secret.encode()) * 8 // 6 - 1


def test_only_what_may_begin_a_secret_waits() -> None:
    """A chunk that ends like a secret's beginning is held, any other is written at once."""
    mask = ChunkMask(Redactor(SECRETS))

    assert len(mask.take([Entry("agent.message_chunk", {"text": "nothing here"})])) == 1
    assert mask.take([Entry("agent.message_chunk", {"text": "my key is sk-"})]) == []
    assert mask.holding
    assert len(mask.take([Entry("agent.message_chunk", {"text": "ed with you"})])) == 2


def test_without_secrets_nothing_ever_waits() -> None:
    """A run that was lent no credential has its entries written as they come."""
    mask = ChunkMask(Redactor())
    entry = Entry("agent.message_chunk", {"text": "sk-"})

    assert mask.take([entry]) == [entry]
