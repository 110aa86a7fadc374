"""The log of what a gate decided: a line for each destination, and how often, once in a while."""

from __future__ import annotations

import json
import os
import threading
import time

from .addresses import spelled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .addresses import Address

# An agent can make up names without an end.
MAX_DESTINATIONS = 500
MAX_LOG_BYTES = 4 * 1024 * 1024
COUNTS_EVERY_S = 1.0
# The one reason of what is allowed: it could not be reached, and `why` says more.
UNREACHABLE = "unreachable"
MAX_WHY_CHARACTERS = 300
Key = tuple[str, int | None, str]


class Decisions:
    """Appends to the log ``fd``; ``notify_fd`` gets a byte whenever it grew.

    A reason of "" is that it was allowed. The first decision of a kind is written at once, how
    often it came again within a second, or when `write_counts` is called.
    """

    def __init__(self, fd: int, notify_fd: int) -> None:
        self._fd = fd
        self._notify_fd = notify_fd
        self._lock = threading.Lock()
        # A gate that was here before has counted already.
        self._counts: dict[Key, int] = dict(_counted(os.pread(fd, MAX_LOG_BYTES, 0)))
        self._whys: dict[Key, str] = {}
        self._unwritten: set[Key] = set()

    def note(
        self, host: str | Address | None, port: int | None, reason: str = "", why: str = ""
    ) -> None:
        """One decision about a destination; without a host, about what names none."""
        key = ("" if host is None else spelled(host), port, reason)
        with self._lock:
            if key not in self._counts and len(self._counts) >= MAX_DESTINATIONS:
                key = ("", None, reason)
            self._counts[key] = count = self._counts.get(key, 0) + 1
            if why:
                self._whys[key] = why[:MAX_WHY_CHARACTERS]
            if count == 1:
                self._write([key])
            else:
                self._write_later(key)

    def _write_later(self, key: Key) -> None:
        if not self._unwritten:
            timer = threading.Timer(COUNTS_EVERY_S, self.write_counts)
            timer.daemon = True
            timer.start()
        self._unwritten.add(key)

    def write_counts(self) -> None:
        """Bring the counts to the file."""
        with self._lock:
            if self._unwritten:
                keys, self._unwritten = sorted(self._unwritten, key=str), set()
                self._write(keys)

    def _write(self, keys: list[Key]) -> None:
        lines = b"".join(self._line(key) for key in keys)
        try:
            # Whole lines: who reads meanwhile sees what ends with a newline.
            os.write(self._fd, lines)
            os.write(self._notify_fd, b"\n")
        except OSError:
            # A full disk or a pipe that nobody reads ends no stream; the counts come again.
            self._unwritten.update(keys)

    def _line(self, key: Key) -> bytes:
        host, port, reason = key
        record = {
            "host": host or None,
            "port": port,
            "allowed": reason in ("", UNREACHABLE),
            "reason": reason or None,
            "why": self._whys.get(key),
            "count": self._counts[key],
            "at_ms": time.time_ns() // 1_000_000,
        }
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _counted(log: bytes) -> Iterator[tuple[Key, int]]:
    for line in log.split(b"\n"):
        try:
            found = json.loads(line)
            yield (found["host"] or "", found["port"], found["reason"] or ""), found["count"]
        except (ValueError, KeyError, TypeError):
            continue  # torn by a full disk
