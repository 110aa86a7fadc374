"""Digest the regular files below a directory that an agent wrote."""

import hashlib
import os
from typing import Any

from attrs import asdict

from coachmand.repos import beneath
from coachmand.repos.errors import TOO_LARGE, RepoError
from coachmand.repos.records import Artifact

MAX_FILES = 100_000
# Sparse files cost an agent nothing: beyond this, a file is listed but not read.
MAX_HASHED_BYTES = 4 * 1024**3


def hash_tree(directory: str) -> list[dict[str, Any]]:
    """An `Artifact` for each regular file, sorted by path; links and pipes are passed over.

    At most `MAX_HASHED_BYTES` are read in all; what lies beyond has no digest.
    """
    root = beneath.open_root(beneath.raw(directory))
    found: list[Artifact] = []
    left = MAX_HASHED_BYTES
    try:
        for path, descriptor in beneath.files(root, lambda _: None):
            if len(found) >= MAX_FILES:
                raise RepoError(
                    TOO_LARGE, f"cannot list {directory}: it holds over {MAX_FILES} files"
                )
            size = os.fstat(descriptor).st_size
            left -= size
            known = digest(descriptor, size) if left >= 0 else None
            found.append(Artifact(beneath.text(path), size, known))
    finally:
        os.close(root)
    return [asdict(each) for each in sorted(found, key=lambda each: each.path)]


def digest(descriptor: int, size: int) -> str:
    """The SHA-256 of the next ``size`` bytes at most, in hex."""
    found = hashlib.sha256()
    while size > 0 and (chunk := os.read(descriptor, min(size, beneath.CHUNK_BYTES))):
        found.update(chunk)
        size -= len(chunk)
    return found.hexdigest()
