"""Regular files opened by name: what would only block, such as a FIFO, is refused at once."""

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import FileIO


def open_regular(path: str) -> "FileIO":
    """``path`` opened to be read, unbuffered. Raises OSError that says why not."""
    # Without O_NONBLOCK the open itself waits until somebody writes to a FIFO.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "it is no regular file")
    return open(fd, "rb", buffering=0)


def read_regular(path: str, limit: int) -> bytes:
    """Up to ``limit`` bytes of the file's beginning. Raises OSError that says why not."""
    with open_regular(path) as file:
        pieces = []
        while limit > 0 and (piece := file.read(limit)):
            pieces.append(piece)
            limit -= len(piece)
        return b"".join(pieces)
