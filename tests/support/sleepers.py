"""Sleeps that are told from every other process of the machine, sandboxes included."""

import os
from itertools import count
from pathlib import Path

_numbers = count(1)


def new_sleep() -> str:
    """Seconds, about a day, that no other process has on its command line."""
    return f"86399.{os.getpid()}{next(_numbers):05}"


def sleeping(seconds: str) -> list[int]:
    """The pids of those that have exactly this argument."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        found += [int(path.parent.name)] if seconds.encode() in words else []
    return found
