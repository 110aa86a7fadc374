"""Masks secrets that an agent says piece by piece: a text's end waits while it may begin one."""

from collections.abc import Sequence

from attrs import evolve

from ..redaction import Redactor
from .lines import Entry
from .vocabulary import MESSAGE_CHUNK, THOUGHT_CHUNK, USER_CHUNK

CHUNKS = frozenset({MESSAGE_CHUNK, THOUGHT_CHUNK, USER_CHUNK})


class ChunkMask:
    """Holds chunks back, in order, while their end could be the beginning of a secret.

    Whatever is not the next chunk of the same text lets them go. What is held was never
    journaled, so a crash loses nothing of it: replay says it again.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held: list[Entry] = []

    def __repr__(self) -> str:
        return f"<ChunkMask holding {len(self._held)}>"

    @property
    def holding(self) -> bool:
        """Whether something said is not in the journal yet."""
        return bool(self._held)

    def take(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries that may be written now, masked."""
        if self._redactor.longest == 0:
            return list(entries)
        ready: list[Entry] = []
        for entry in entries:
            if self._held and entry.type != self._held[0].type:
                ready += self._held
                self._held = []
            if entry.type in CHUNKS:
                self._held.append(entry)
                ready += self._settle()
            else:
                ready.append(entry)
        return ready

    def _settle(self) -> list[Entry]:
        """Mask what is held as one text; let go of all that lies before a possible secret."""
        texts = [entry.members["text"].encode("utf-8", "surrogatepass") for entry in self._held]
        masked = self._redactor.mask(b"".join(texts))
        open_from = len(masked) - self._redactor.begun(masked)
        start, ready, held = 0, list[Entry](), list[Entry]()
        for entry, text in zip(self._held, texts, strict=True):
            end = start + len(text)
            shown = masked[start:end].decode("utf-8", "surrogatepass")
            masked_entry = evolve(entry, members={**entry.members, "text": shown})
            (ready if end <= open_from and not held else held).append(masked_entry)
            start = end
        self._held = held
        return ready
