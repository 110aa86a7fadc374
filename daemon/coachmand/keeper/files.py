"""Descriptors and files: read a chunk, write all, open a log, replace a file whole."""

from __future__ import annotations

import contextlib
import json
import os
import time

from ..failpoints import guard, reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK_BYTES = 64 * 1024

# What goes to the attempt's own files, and may be refused.
_open = guard("keeper.disk.open", os.open)
_write = guard("keeper.disk.write", os.write)
# At an offset, so that what was refused halfway is written over when it is tried again.
write_at = guard("keeper.disk.write", os.pwrite)
fsync = guard("keeper.disk.sync", os.fsync)
fdatasync = guard("keeper.disk.sync", os.fdatasync)
_rename = guard("keeper.disk.rename", os.rename)


def read_some(fd: int) -> bytes | None:
    """One chunk; empty at the end, None when nothing is there yet."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None


def write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def open_log(directory: int, name: str, flags: int = 0) -> int:
    """A file of the attempt, made when it is not there, to be read and written."""
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    return _open(name, flags, 0o600, dir_fd=directory)


def replace_file(directory: int, name: str, content: bytes, *, durable: bool) -> None:
    """Write a file of the attempt so that readers see the old or the new one, whole."""
    temporary = f".{name}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    fd = _open(temporary, flags, 0o600, dir_fd=directory)
    try:
        while content:
            content = content[_write(fd, content) :]
        if durable:
            fsync(fd)
    finally:
        os.close(fd)
    _rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    reach("keeper.disk.renamed")
    if durable:
        fsync(directory)


def log(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{int(time.time())} {text}\n".encode())
