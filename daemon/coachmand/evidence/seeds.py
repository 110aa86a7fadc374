"""Writes into a tree that an agent could have shaped: never through a symlink.

A private home lives as long as its task, so an earlier run may have put a link
where a later seed goes. Every component is opened from the one before it with
O_NOFOLLOW; what is no directory on the way is put aside.
"""

import contextlib
import errno
import os
import secrets
from pathlib import Path

from .. import durable

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_seed(home: Path, relative: str, content: bytes, mode: int = 0o600) -> None:
    """Put ``content`` at ``relative`` below ``home``. Blocks.

    ValueError for a path that leaves the home; OSError where it cannot be written.
    """
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts:
        raise ValueError(f"cannot seed {relative!r}: not a path below the agent's home")
    fd = os.open(home, DIRECTORY_FLAGS)
    try:
        for part in parts[:-1]:
            fd, outer = _enter(fd, part), fd
            os.close(outer)
        _write_at(fd, parts[-1], content, mode)
    finally:
        os.close(fd)


def _enter(parent: int, name: str) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
    try:
        return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        # A link or a file where a directory belongs: kept, but out of the way.
        os.rename(
            name, f"{name}.aside-{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent
        )
        os.mkdir(name, 0o700, dir_fd=parent)
        return os.open(name, DIRECTORY_FLAGS, dir_fd=parent)


def _write_at(parent: int, name: str, content: bytes, mode: int) -> None:
    temporary = f".{name[:64]}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(temporary, flags, mode, dir_fd=parent)
    try:
        durable.write_all(fd, content)
    finally:
        os.close(fd)
    with contextlib.suppress(IsADirectoryError):
        # A rename replaces a link itself, never what it points to.
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    os.rename(name, f"{name}.aside-{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)
    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
