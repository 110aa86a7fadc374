"""Writes into a tree that an agent could have shaped: never through a symlink.

A private home lives as long as its task, so an earlier run may have put a link
where a later seed goes. Every component is opened from the one before it with
O_NOFOLLOW; what is no directory on the way is put aside.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from .. import durable

MAX_FILES = 10_000
MAX_BYTES = 64 * 1024 * 1024
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_seed(home: Path, relative: str, content: bytes, mode: int = 0o600) -> None:
    """Put ``content`` at ``relative`` below ``home``. Blocks.

    ValueError for a path that leaves the home; OSError where it cannot be written.
    """

    def make(name: str, folder: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(name, flags, mode, dir_fd=folder)
        try:
            durable.write_all(fd, content)
        finally:
            os.close(fd)

    _put(home, relative, make)


def write_link(home: Path, relative: str, target: str) -> None:
    """Likewise for a link to ``target``, which is not looked at. Blocks."""
    _put(home, relative, lambda name, folder: os.symlink(target, name, dir_fd=folder))


def _put(home: Path, relative: str, make: Callable[[str, int], None]) -> None:
    parts = Path(relative).parts
    if not parts or Path(relative).is_absolute() or ".." in parts:
        raise ValueError(f"cannot seed {relative!r}: not a path below the agent's home")
    fd = os.open(home, DIRECTORY_FLAGS)
    try:
        for part in parts[:-1]:
            fd, outer = _enter(fd, part), fd
            os.close(outer)
        _put_at(fd, parts[-1], make)
    finally:
        os.close(fd)


def exists_below(home: Path, relative: str) -> bool:
    """Whether something lies at ``relative`` below ``home``, reached through no link. Blocks."""
    fd = os.open(home, DIRECTORY_FLAGS)
    try:
        for part in Path(relative).parts:
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                return False
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            fd, outer = os.open(part, flags, dir_fd=fd), fd
            os.close(outer)
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    finally:
        os.close(fd)


def copy_files(source: str, names: Iterable[str], home: Path, directory: str) -> None:
    """Copy files and whole directories ``names`` from ``source`` to ``directory`` of ``home``.

    What does not exist is left out, and so are special files and, below a directory, links to
    directories: it is the user's own tree, where a link to a file is meant. Blocks. OSError
    where one cannot be read or written, or where it is more than MAX_FILES or MAX_BYTES.
    """
    files = bytes_ = 0
    for path in (path for name in names for path in _files(source, name)):
        content = read_file(os.path.join(source, path))
        if content is None:
            continue
        files, bytes_ = files + 1, bytes_ + len(content)
        if files > MAX_FILES or bytes_ > MAX_BYTES:
            limit = f"{MAX_FILES} files or {MAX_BYTES >> 20} MiB"
            raise OSError(errno.EFBIG, f"more than {limit} to copy for the agent", source)
        write_seed(home, os.path.join(directory, path), content)


def _files(source: str, name: str) -> Iterator[str]:
    """The files at or below ``name``, relative to ``source``."""
    top = os.path.join(source, name)
    if not os.path.isdir(top):
        yield name
        return
    for directory, _, names in os.walk(top):
        yield from (os.path.relpath(os.path.join(directory, each), source) for each in names)


def read_file(path: str) -> bytes | None:
    """The content of a regular file; None for what is missing or of another kind."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a pipe without a writer
            return None
        raise
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return file.read(MAX_BYTES + 1)


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


def _put_at(parent: int, name: str, make: Callable[[str, int], None]) -> None:
    temporary = f".{name[:64]}.{secrets.token_hex(4)}"
    make(temporary, parent)
    with contextlib.suppress(IsADirectoryError):
        # A rename replaces a link itself, never what it points to.
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        return
    os.rename(name, f"{name}.aside-{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)
    os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
