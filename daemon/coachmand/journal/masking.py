"""Masks secrets that an agent says piece by piece: a text's end waits while it may begin one."""

from collections.abc import Sequence

from attrs import evolve

from ..redaction import MIN_SECRET_BYTES, Redactor
from .lines import Entry
from .vocabulary import MESSAGE_CHUNK, THOUGHT_CHUNK, USER_CHUNK

CHUNKS = frozenset({MESSAGE_CHUNK, THOUGHT_CHUNK, USER_CHUNK})


class ChunkMask:
    """Holds chunks back, in order, while their end could be the beginning of a secret.

    Whatever is not the next chunk of the same text lets them go; from their end a secret's
    beginning is masked then where it is as long as a secret, and the rest, should it follow, in
    any case. So no text that is put together again, whatever came between, holds a whole one.
    What is held was never journaled, so a crash loses nothing of it: replay says it again.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: list[Entry] = []
        # By type, the end of what was said so far, unmasked: shorter than any secret.
        self._before: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"<ChunkMask holding {len(self._held)}>"

    @property
    def holding(self) -> bool:
        """Whether something said is not in the journal yet."""
        return bool(self._held)

    def learn(self, redactor: Redactor) -> None:
        """Mask what ``redactor`` knows from now on, in what is held as well."""
        self._redactor = redactor

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries that may be written now, masked."""
        if self._redactor.longest == 0 and not self._held:
            return list(entries)
        ready: list[Entry] = []
        for entry in entries:
            if self._held and entry.type != self._held[0].type:
                ready += self._settle(wait=False)
            if entry.type in CHUNKS:
                self._held.append(entry)
                ready += self._settle(wait=True)
            else:
                ready.append(entry)
        return ready

    def _settle(self, wait: bool) -> list[Entry]:
        """Mask what is held as one text; let go of all that lies before a possible secret."""
        texts = [entry.members["text"].encode("utf-8", "surrogatepass") for entry in self._held]
        type_ = self._held[0].type
        before = self._before.get(type_, b"")
        said = before + b"".join(texts)
        masked = self._redactor.mask(said)
        begun = self._redactor.begun(masked)
        open_from = len(masked) - begun if wait else len(masked)
        if not wait and begun >= MIN_SECRET_BYTES:
            masked = masked[:-begun] + b"*" * begun
        start, ready = len(before), list[Entry]()
        for entry, text in zip(self._held, texts, strict=True):
            end = start + len(text)
            if end > open_from:
                break
            shown = masked[start:end].decode("utf-8", "replace")
            ready.append(evolve(entry, members={**entry.members, "text": shown}))
            start = end
        self._before[type_] = said[max(0, start - self._redactor.longest + 1) : start]
        del self._held[: len(ready)]
        return ready
