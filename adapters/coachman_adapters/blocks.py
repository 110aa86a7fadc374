"""A program's output cut into blocks: line by line at first, coarser the more it has said.

A build log is watched line by line; a flood of empty lines must not become as many
events. Where a block ends depends on the bytes alone, never on how they arrived.
"""

import base64
from collections.abc import Mapping
from typing import Any

from attrs import frozen

BLOCK_BYTES = 32 * 1024
# A block is a line once 1/64 of what was said before it has gathered.
COARSENESS = 64
LONGEST_CHARACTER_BYTES = 4


@frozen
class Block:
    """Some whole lines, or a part of one that is too long. ``offset`` is its place in stdout."""

    offset: int
    data: bytes


class BlockCutter:
    """Takes bytes as they come and gives blocks of at most `BLOCK_BYTES`."""

    def __init__(self) -> None:
        self._offset = 0
        self._rest = b""

    def __repr__(self) -> str:
        return f"<BlockCutter at {self._offset}, {len(self._rest)} bytes wait>"

    @property
    def waiting(self) -> bool:
        """Whether something was said that no block holds yet."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[Block]:
        """The blocks that are complete with ``data``."""
        data, blocks, start = self._rest + data, [], 0
        while (end := self._end_of_block(data, start)) is not None:
            blocks.append(Block(self._offset, data[start:end]))
            self._offset += end - start
            start = end
        self._rest = data[start:]
        return blocks

    def flush(self) -> list[Block]:
        """What waits, as a block of its own."""
        blocks = [Block(self._offset, self._rest)] if self._rest else []
        self._offset += len(self._rest)
        self._rest = b""
        return blocks

    def _end_of_block(self, data: bytes, start: int) -> int | None:
        least = min(self._offset // COARSENESS, BLOCK_BYTES - 1)
        newline = data.find(b"\n", start + max(0, least - 1), start + BLOCK_BYTES)
        if newline >= 0:
            return newline + 1
        if len(data) - start < BLOCK_BYTES:
            return None
        return start + _whole_characters(data[start : start + BLOCK_BYTES])

    def snapshot(self) -> dict[str, Any]:
        """The cutter as JSON values."""
        return {"offset": self._offset, "rest": base64.b64encode(self._rest).decode()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Become the cutter that ``snapshot`` was taken of."""
        self._offset = snapshot["offset"]
        self._rest = base64.b64decode(snapshot["rest"])


def _whole_characters(data: bytes) -> int:
    """How many bytes of ``data`` do not end within a UTF-8 character."""
    for back in range(1, LONGEST_CHARACTER_BYTES):
        lead = data[-back]
        if lead & 0xC0 == 0x80:
            continue  # a byte from within a character
        needs = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
        return len(data) - back if needs > back else len(data)
    return len(data)
