"""Bytes to lines, however they were chunked."""


class LineTooLongError(Exception):
    """A line exceeds the limit; what follows it cannot be told apart any more."""


class LineSplitter:
    """Splits at newlines. Holds at most one unfinished line of ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that ``chunk`` completes, without their newlines.

        Raises LineTooLongError.
        """
        *lines, tail = chunk.split(b"\n")
        if lines and self._parts:
            lines[0] = b"".join([*self._parts, lines[0]])
            self._parts.clear()
            self._size = 0
        if tail:
            self._parts.append(tail)
            self._size += len(tail)
        if self._size > self._limit or (lines and len(lines[0]) > self._limit):
            raise LineTooLongError
        return lines

    def rest(self) -> bytes:
        """The unfinished line at the end of the stream."""
        return b"".join(self._parts)
