"""One small file below a directory that a stranger's program wrote."""

import os

from coachmand.repos import beneath
from coachmand.repos.errors import UNFIT, RepoError


def read(directory: str, path: str, limit_bytes: int) -> bytes:
    """Its content. Raises RepoError for what is missing, a link, no regular file, or larger."""
    root = beneath.open_root(beneath.raw(directory))
    try:
        content = beneath.read_small(root, beneath.raw(path), limit_bytes)
    finally:
        os.close(root)
    if content is None:
        raise RepoError(
            UNFIT, f"it is missing, no regular file, or larger than {limit_bytes // 1024} KiB"
        )
    return content
