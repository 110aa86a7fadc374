"""New files on their way to the disk, which takes many together sooner than each by itself."""

import ctypes
import os

# Few of what a process may have open.
MAX_HELD = 256
_WRITE = 2  # SYNC_FILE_RANGE_WRITE
_libc = ctypes.CDLL(None)


class Unsynced:
    """Files that are being written. All are on the disk once this is left without an error."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def __repr__(self) -> str:
        return f"<Unsynced {len(self._held)} files>"

    def __enter__(self) -> "Unsynced":
        return self

    def __exit__(self, kind: object, *_rest: object) -> None:
        try:
            if kind is None:
                self._sync()
        finally:
            self._close()

    def take(self, descriptor: int) -> int:
        """Have a file that is about to be written; its descriptor is ours from here on."""
        if len(self._held) >= MAX_HELD:
            self._sync()
            self._close()
        self._held.append(descriptor)
        return descriptor

    def grown(self, descriptor: int) -> None:
        """Let the disk begin with what was written, where it can, while more is being read."""
        everything = ctypes.c_int64(0)
        _libc.sync_file_range(descriptor, everything, everything, _WRITE)

    def _sync(self) -> None:
        for descriptor in self._held:
            os.fsync(descriptor)

    def _close(self) -> None:
        while self._held:
            os.close(self._held.pop())
