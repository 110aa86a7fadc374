"""Digest the regular files below a directory that an agent wrote."""

import hashlib
import os
from typing import Any

from attrs import asdict

from coachmand.repos import beneath
from coachmand.repos.errors import TOO_LARGE, RepoError
from coachmand.repos.records import Artifact

MAX_FILES = 100_000


def hash_tree(directory: str) -> list[dict[str, Any]]:
    """An `Artifact` for each regular file, sorted by path; links and pipes are passed over."""
    root = beneath.open_root(beneath.raw(directory))
    found: list[Artifact] = []
    try:
        for path, descriptor in beneath.files(root, lambda _: None):
            if len(found) >= MAX_FILES:
                raise RepoError(
                    TOO_LARGE, f"cannot list {directory}: it holds over {MAX_FILES} files"
                )
            found.append(_artifact(path, descriptor))
    finally:
        os.close(root)
    return [asdict(each) for each in sorted(found, key=lambda each: each.path)]


def _artifact(path: bytes, descriptor: int) -> Artifact:
    digest, size = hashlib.sha256(), 0
    while chunk := os.read(descriptor, beneath.CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return Artifact(beneath.text(path), size, digest.hexdigest())
