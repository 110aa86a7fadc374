"""Digest the files by which a tree instructs an agent, as they are now."""

import os
from collections.abc import Iterator
from typing import Any

from attrs import asdict

from coachmand.repos import artifacts, beneath
from coachmand.repos.records import Artifact

# What agents read by themselves; a folder's own file adds to those above it.
NAMES = ("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", ".cursorrules")
TOP_NAMES = (".github/copilot-instructions.md",)
MAX_BYTES = 16 * 1024 * 1024


def hash_instructions(directory: str, subfolder: str) -> list[dict[str, Any]]:
    """An `Artifact` for each such regular file from the top of a tree to ``subfolder``.

    Links are passed over: what one leads to is no part of the tree. One that is too large to be
    read has no digest.
    """
    root = beneath.open_root(beneath.raw(directory))
    try:
        found = [_hashed(root, path) for path in _candidates(beneath.raw(subfolder))]
    finally:
        os.close(root)
    return [asdict(each) for each in found if each is not None]


def _candidates(subfolder: bytes) -> Iterator[bytes]:
    yield from map(os.fsencode, TOP_NAMES)
    parts = [part for part in subfolder.split(b"/") if part]
    for depth in range(len(parts) + 1):
        for name in map(os.fsencode, NAMES):
            yield b"/".join([*parts[:depth], name])


def _hashed(root: int, path: bytes) -> Artifact | None:
    try:
        descriptor = beneath.open_file(root, path)
    except OSError:
        return None
    if descriptor is None:
        return None
    try:
        size = os.fstat(descriptor).st_size
        digest = artifacts.digest(descriptor, size) if size <= MAX_BYTES else None
    finally:
        os.close(descriptor)
    return Artifact(beneath.text(path), size, digest)
