"""Inputs that came as descriptors of files: copied as they are, wherever somebody reads in them.

Who sends one has it open as well, and may move its place: it is read by offset. It is never read
beyond its size. A file of the kernel's has none, and says what it says to whoever reads it.
"""

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coachman.wire import MAX_HANDED_BYTES

from ... import durable
from ...rpc.descriptors import handed
from .request import usage

if TYPE_CHECKING:
    from hashlib import _Hash

_CHUNK_BYTES = 1 << 20


def by_name(names: tuple[str, ...]) -> dict[str, int]:
    """The descriptors that came with this request, by name. Raises RpcError."""
    numbers = handed()
    if len(names) != len(numbers):
        raise usage(
            f"{len(numbers)} descriptors came with the request, which names {len(names)}",
            "send them along with the request's line, over a run's own socket",
        )
    found = dict(zip(names, numbers, strict=True))
    for name, number in found.items():
        if (fault := _fault_of(number)) is not None:
            raise usage(f"the input {name!r} cannot be taken: {fault}")
    if sum(os.fstat(number).st_size for number in numbers) > MAX_HANDED_BYTES:
        raise usage(f"over {MAX_HANDED_BYTES >> 20} MiB in all came as descriptors")
    return found


def _fault_of(number: int) -> str | None:
    if not stat.S_ISREG(os.fstat(number).st_mode):
        return "its descriptor is of no regular file"
    flags = fcntl.fcntl(number, fcntl.F_GETFL)
    if flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_PATH:
        return "its descriptor was not opened to be read, and only that"
    return None


def copied(descriptors: Mapping[str, int], into: Path) -> Iterator[dict[str, Any]]:
    """A row of the manifest for each, once it was copied. Blocks. Raises RpcError, DiskError."""
    for name, number in descriptors.items():
        found = hashlib.sha256()
        size = os.fstat(number).st_size
        durable.create_all(into / name, _pieces(name, number, size, found))
        yield {"name": name, "kind": "file", "size": size, "sha256": found.hexdigest()}


def _pieces(name: str, number: int, size: int, found: "_Hash") -> Iterator[bytes]:
    before, at = _facts(number), 0
    while at < size and (chunk := _read(name, number, min(_CHUNK_BYTES, size - at), at)):
        found.update(chunk)
        at += len(chunk)
        yield chunk
    if at != size or _facts(number) != before or _read(name, number, 1, size):
        raise usage(f"the input {name!r} cannot be taken: it changed while it was copied")


def _read(name: str, number: int, size: int, at: int) -> bytes:
    try:
        return os.pread(number, size, at)
    except OSError as error:
        # The sender's file, not the disk that it is copied to.
        raise usage(f"the input {name!r} cannot be read: {error.strerror}") from error


def _facts(number: int) -> tuple[int, int, int]:
    found = os.fstat(number)
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
