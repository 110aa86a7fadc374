"""Which files were stored already, by facts that a writer cannot forge.

A file's change time is set by the kernel: equal identity, size and change time
mean equal content, unless the file changed within the clock's own grain.
"""

import json
import os
import time
from pathlib import Path

from attrs import define, field

from coachmand.repos.beneath import raw, text

# Coarser than any kernel tick; younger entries are read again.
_GRAIN_NS = 100_000_000
_VERSION = 1

Facts = tuple[int, int, int, int, int]


def facts_of(status: os.stat_result) -> Facts:
    """What identifies a file's content: inode, size, change and modification time, mode."""
    return (
        status.st_ino,
        status.st_size,
        status.st_ctime_ns,
        status.st_mtime_ns,
        status.st_mode,
    )


@define
class StatCache:
    """Blob ids by path, as of the last snapshot."""

    known: dict[bytes, tuple[Facts, bytes]] = field(factory=dict)
    fresh: dict[bytes, tuple[Facts, bytes]] = field(factory=dict)
    started_ns: int = field(factory=time.time_ns)

    def find(self, path: bytes, facts: Facts) -> bytes | None:
        """The blob stored for a file with exactly these facts."""
        found = self.known.get(path)
        return found[1] if found and found[0] == facts else None

    def remember(self, path: bytes, facts: Facts, oid: bytes) -> None:
        """Keep an id for next time, unless the file may still change unseen."""
        if facts[2] < self.started_ns - _GRAIN_NS:
            self.fresh[path] = (facts, oid)

    @classmethod
    def load(cls, file: Path) -> "StatCache":
        """The cache in a file; an unreadable one is an empty one."""
        try:
            document = json.loads(file.read_bytes())
            if document["version"] != _VERSION:
                return cls()
            entries = document["entries"].items()
            known = {
                raw(path): ((ino, size, ctime, mtime, mode), bytes.fromhex(oid))
                for path, (ino, size, ctime, mtime, mode, oid) in entries
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return cls()
        return cls(known=known)

    def save(self, file: Path) -> None:
        """Replace the cache's file."""
        entries = {text(path): [*facts, oid.hex()] for path, (facts, oid) in self.fresh.items()}
        written = file.with_name(f"{file.name}.{os.getpid()}")
        written.write_text(json.dumps({"version": _VERSION, "entries": entries}))
        written.rename(file)
