"""Write git's index, version 2, for a tree that was just checked out."""

import hashlib
import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from attrs import frozen

from coachmand.repos.objects import Item
from coachmand.repos.statcache import Facts

_HEADER = struct.Struct(">4sII")
_ENTRY = struct.Struct(">10I20sH")
_RECORD = struct.Struct("=8Q")
_ALIGNMENT = 8
_NAME_MASK = 0xFFF
_WORD = 0xFFFFFFFF
_SECOND_NS = 1_000_000_000


@frozen
class Stat:
    """The facts by which git sees that a file did not change."""

    ino: int
    size: int
    ctime_ns: int
    mtime_ns: int
    mode: int
    dev: int
    uid: int
    gid: int

    SIZE: ClassVar[int] = _RECORD.size

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(
            status.st_ino,
            status.st_size,
            status.st_ctime_ns,
            status.st_mtime_ns,
            status.st_mode,
            status.st_dev,
            status.st_uid,
            status.st_gid,
        )

    @classmethod
    def unknown(cls) -> Self:
        """For what has no content of its own; git looks for itself then."""
        return cls(0, 0, 0, 0, 0, 0, 0, 0)

    @classmethod
    def unpacked(cls, record: bytes) -> Self:
        return cls(*_RECORD.unpack(record))

    def packed(self) -> bytes:
        """The same as bytes, for a pipe."""
        return _RECORD.pack(*self._words)

    @property
    def facts(self) -> Facts:
        """As the cache of stored files keeps them."""
        return self.ino, self.size, self.ctime_ns, self.mtime_ns, self.mode

    @property
    def _words(self) -> tuple[int, ...]:
        return (*self.facts, self.dev, self.uid, self.gid)


def write(file: Path, items: Sequence[Item], stats: Iterable[Stat]) -> None:
    """Write an index of ``items``, which are sorted by path."""
    entries = [_entry(item, stat) for item, stat in zip(items, stats, strict=True)]
    content = b"".join([_HEADER.pack(b"DIRC", 2, len(entries)), *entries])
    checksum = hashlib.sha1(content, usedforsecurity=False).digest()
    file.write_bytes(content + checksum)


def _entry(item: Item, stat: Stat) -> bytes:
    path, (mode, oid) = item
    fixed = _ENTRY.pack(
        stat.ctime_ns // _SECOND_NS & _WORD,
        stat.ctime_ns % _SECOND_NS,
        stat.mtime_ns // _SECOND_NS & _WORD,
        stat.mtime_ns % _SECOND_NS,
        stat.dev & _WORD,
        stat.ino & _WORD,
        int(mode, 8),
        stat.uid & _WORD,
        stat.gid & _WORD,
        stat.size & _WORD,
        oid,
        min(len(path), _NAME_MASK),
    )
    entry = fixed + path
    # At least one NUL ends the name.
    return entry + bytes(_ALIGNMENT - len(entry) % _ALIGNMENT)
