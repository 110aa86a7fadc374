"""Secrets in what an agent says, however it is cut into pieces."""

from hypothesis import given
from hypothesis import strategies as st

from coachmand.journal.lines import Entry
from coachmand.journal.masking import ChunkMask
from coachmand.redaction import Redactor

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
    """What is written is the masked whole, at equal length in bytes."""
    whole = "".join(pieces)
    redactor = Redactor(SECRETS)
    written = said(ChunkMask(redactor), pieces)

    assert written == redactor.mask(whole.encode()).decode()
    assert not any(secret in written for secret in SECRETS)


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
