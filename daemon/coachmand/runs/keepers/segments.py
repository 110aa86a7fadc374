"""Read an agent's raw output by absolute offset, whichever segment it lies in."""

import os
from bisect import bisect_right
from typing import Self

SEGMENT_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


class SegmentReader:
    """The bytes of one stream (`stdout` or `stderr`) of one attempt.

    It blocks on the disk, so use it in a worker thread, one thread at a time. It holds at most
    one segment open; `close()` or a `with` block lets go of it.
    """

    def __init__(self, directory: str | os.PathLike[str], stream: str) -> None:
        self._directory = os.fspath(directory)
        self._stream = stream
        self._starts: list[int] = []
        self._open_start = -1
        self._fd = -1

    def __repr__(self) -> str:
        return f"<SegmentReader {self._stream} in {self._directory}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only where the stream ends for now.

        Raises OSError when the disk refuses.
        """
        parts: list[bytes] = []
        while size > 0:
            part = self._read_part(offset, size)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = self._open_start = -1

    def _read_part(self, offset: int, size: int) -> bytes:
        part = self._read_segment(offset, size)
        if not part and self._refresh():
            # A segment that was the last one when it was looked up may have a successor by now.
            part = self._read_segment(offset, size)
        return part

    def _read_segment(self, offset: int, size: int) -> bytes:
        index = bisect_right(self._starts, offset) - 1
        if index < 0:
            return b""
        start = self._starts[index]
        if start != self._open_start:
            self.close()
            path = f"{self._directory}/{self._stream}.{start}"
            self._fd = os.open(path, SEGMENT_FLAGS)
            self._open_start = start
        return os.pread(self._fd, size, offset - start)

    def _refresh(self) -> bool:
        """List the segments again; whether there are more of them."""
        prefix = f"{self._stream}."
        suffixes = (
            name.removeprefix(prefix)
            for name in os.listdir(self._directory)
            if name.startswith(prefix)
        )
        starts = sorted(int(suffix) for suffix in suffixes if suffix.isdecimal())
        grown = len(starts) > len(self._starts)
        self._starts = starts
        return grown
