"""Delete some of the files below a directory, and tell how much a directory takes."""

import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from attrs import asdict

from coachmand.repos import beneath
from coachmand.repos.records import Trimmed

_BLOCK_BYTES = 512


def measure(directory: str) -> dict[str, Any]:
    """What is below a directory, as `Trimmed`; nothing where there is none."""
    return _trim(directory, ("*",), write=False)


def trim(directory: str, patterns: Sequence[str]) -> dict[str, Any]:
    """Delete the files whose names fit a shell pattern; see `Trimmed`."""
    return _trim(directory, patterns, write=True)


def _trim(directory: str, patterns: Sequence[str], *, write: bool) -> dict[str, Any]:
    if not os.path.isdir(directory) or os.path.islink(directory):
        return asdict(Trimmed(0, 0))
    root = beneath.open_root(beneath.raw(directory))
    files = size = 0
    pending = [b""]
    try:
        while pending:
            path = pending.pop()
            try:
                folder = beneath.open_folder(root, path)
            except OSError:
                # What cannot be entered is counted by nobody and deleted by nobody.
                continue
            try:
                for name, status in _entries(folder):
                    if stat.S_ISDIR(status.st_mode):
                        pending.append(path + b"/" + name if path else name)
                    elif any(fnmatchcase(beneath.text(name), pattern) for pattern in patterns):
                        files, size = files + 1, size + status.st_blocks * _BLOCK_BYTES
                        if write:
                            os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
    finally:
        os.close(root)
    return asdict(Trimmed(files, size))


def _entries(folder: int) -> list[tuple[bytes, os.stat_result]]:
    found = []
    for name in beneath.names_in(folder):
        try:
            found.append((name, os.stat(name, dir_fd=folder, follow_symlinks=False)))
        except FileNotFoundError:
            continue
    return found
