"""Masks known credential values wherever the daemon writes text.

The values live in memory only. A mask keeps the length of what it hides, so
that raw logs can be masked in place and offsets into them stay true.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote

# Shorter values would blank out ordinary words; a credential is longer.
MIN_SECRET_BYTES = 8


def _overlap(value: bytes, tail: bytes) -> int:
    """The longest proper beginning of ``value`` that ``tail`` ends with, in bytes."""
    tail = tail[-(len(value) - 1) :]
    start = tail.find(value[:1])
    while start >= 0:
        if value.startswith(tail[start:]):
            return len(tail) - start
        start = tail.find(value[:1], start + 1)
    return 0


class Redactor:
    """Replaces every known secret by asterisks of the same length."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = {form for secret in secrets for form in _forms(secret)}
        values = sorted((s for s in found if len(s) >= MIN_SECRET_BYTES), key=len, reverse=True)
        self._values = values
        self._pattern = re.compile(b"|".join(map(re.escape, values))) if values else None
        self.longest = len(values[0]) if values else 0

    def __repr__(self) -> str:
        return f"<Redactor {'on' if self._pattern else 'off'}>"

    def mask(self, data: bytes) -> bytes:
        """``data`` with every secret starred out, at equal length."""
        # To look for each is many times faster than the pattern, and nearly always all there is.
        if self._pattern is None or not any(value in data for value in self._values):
            return data
        return self._pattern.sub(lambda match: b"*" * len(match[0]), data)

    def begun(self, data: bytes) -> int:
        """How many bytes at the end of ``data`` could be the beginning of a secret."""
        tail = data[-(self.longest - 1) :] if self.longest else b""
        return max((_overlap(value, tail) for value in self._values), default=0)

    def mask_text(self, text: str) -> str:
        """The same for text."""
        if self._pattern is None:
            return text
        return self.mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def _forms(secret: str) -> Iterator[bytes]:
    """A secret as it is, and as JSON, URLs and base64 write it."""
    texts = [secret, *(json.dumps(secret, ensure_ascii=ascii)[1:-1] for ascii in (False, True))]
    texts += [text.replace("/", r"\/") for text in texts]
    for text in (*texts, quote(secret, safe="", errors="surrogateescape")):
        yield text.encode("utf-8", "surrogateescape")
    yield from _base64(secret.encode("utf-8", "surrogateescape"))


def _base64(secret: bytes) -> Iterator[bytes]:
    """What of it is always there, whatever stands before it and behind it."""
    for shift in range(3):
        # A character that a neighbour has bits in is not the secret's own.
        whole = base64.b64encode(bytes(shift) + secret).rstrip(b"=")
        own = whole[-(-shift * 8 // 6) : (shift + len(secret)) * 8 // 6]
        yield own
        yield own.translate(bytes.maketrans(b"+/", b"-_"))
