"""Keeps what an agent said within the size of one journal event."""

from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec

# As JSON a piece takes at most 192 KiB, escapes included; an event may have 256 KiB.
PIECE_CHARS = 32 * 1024
MEMBERS_BYTES = 192 * 1024
SMALL_STRING_CHARS = 512
SMALL_ITEMS = 32
CUT = " [cut]"
MAX_ID_CHARS = 1024


def pieces(text: str) -> Iterator[str]:
    """``text`` in parts that each fit into an event."""
    for start in range(0, len(text), PIECE_CHARS):
        yield text[start : start + PIECE_CHARS]


def is_id(value: Any) -> TypeGuard[str]:
    """Whether an agent's id is one that can be told and kept: no agent's own is longer."""
    return isinstance(value, str) and len(value) <= MAX_ID_CHARS


def fit(members: dict[str, Any], size: int = PIECE_CHARS + 1) -> dict[str, Any]:
    """``members`` cut to an event's size; ``size``: what they came from, where that is known.

    Long strings lose their tails first; then long lists, and every string that is
    not short. The event's span still leads to all of it.
    """
    if size <= PIECE_CHARS:
        return members
    for chars, items in ((PIECE_CHARS, None), (SMALL_STRING_CHARS, SMALL_ITEMS)):
        members = {name: _cut(value, chars, items) for name, value in members.items()}
        if len(msgspec.json.encode(members)) <= MEMBERS_BYTES:
            return members
    return {name: value for name, value in members.items() if not isinstance(value, dict | list)}


def _cut(value: Any, chars: int, items: int | None) -> Any:
    if isinstance(value, str):
        return value if len(value) <= chars else value[:chars] + CUT
    if isinstance(value, list):
        return [_cut(item, chars, items) for item in value[:items]]
    if isinstance(value, dict):
        kept = list(value.items())[:items]
        return {key[:SMALL_STRING_CHARS]: _cut(item, chars, items) for key, item in kept}
    return value
