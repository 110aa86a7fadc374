"""One writer of refs and worktree entries at a time, whichever child it is."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

_lock: list[int] = []


def prepare() -> None:
    """Make the lock that all later forks share; in the parent, once."""
    if not _lock:
        _lock.append(os.memfd_create("coachman-serial", os.MFD_CLOEXEC))


@contextmanager
def serialized() -> Iterator[None]:
    """Hold the lock. It belongs to the process, so it ends with it, however that ends."""
    prepare()
    fcntl.lockf(_lock[0], fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(_lock[0], fcntl.LOCK_UN)
