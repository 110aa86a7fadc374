"""A long line of JSON, made short while it arrives: its structure stays, its bulk does not.

Nothing that is told of a line has more than a few kilobytes, but what says that a turn is over
may stand anywhere in it. So strings lose their tails, and arrays and objects what lies behind
their first members; deep down they are left empty once there is enough. What comes out is JSON
as far as the line was, and does not depend on how its bytes were cut.
"""

import base64
import re
from collections.abc import Mapping
from typing import Any

from attrs import asdict, define, field

STRING_BYTES = 64 * 1024
SHORT_BYTES = 512
MAX_ITEMS = 64
MAX_DEPTH = 128
# Down to here protocols say what matters: beyond are contents.
SHALLOW = 4
DEEP_BYTES = 512 * 1024
MOST_BYTES = 1024 * 1024
MAX_SCALAR_BYTES = 64
PREVIEW_BYTES = 1024
CUT = b" [cut]"
SPACES = b" \t\r\n"

_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_WHOLE_ESCAPES = re.compile(rb"(?:[^\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+", re.DOTALL)
_TOKEN = re.compile(rb'[ \t\r\n]++|["{}\[\],:]|[^ \t\r\n"{}\[\],:]++')
_LEFT_OUT = re.compile(rb'"(?:[^"\\]++|\\.)*+(")?|([{}\[\]])', re.DOTALL)
_CLOSING = {b"{": b"}", b"[": b"]"}


@define
class Shortener:
    """Takes a line's bytes as they come; `line` is the short one.

    ``open`` are the brackets that are open, ``items`` how many members each has. ``left_out``:
    how many more are open in what is left out, up to the end of the innermost; None where
    nothing is. ``string`` is what is kept of the string that is read, ``room`` how much more may
    be, ``cut`` that more was said. ``rest`` is a backslash whose other half is yet to come.
    """

    out: bytearray = field(factory=bytearray)
    open: bytearray = field(factory=bytearray)
    items: list[int] = field(factory=list)
    left_out: int | None = None
    string: bytearray | None = None
    room: int = 0
    cut: bool = False
    scalar: int = 0
    rest: bytes = b""
    broken: bool = False

    def __repr__(self) -> str:
        return f"<Shortener {len(self.out)} bytes, depth {len(self.open)}>"

    @property
    def line(self) -> bytes:
        """What has come of it so far; of what is no JSON object its first bytes."""
        return bytes(self.out[:PREVIEW_BYTES] if self.broken else self.out)

    def feed(self, data: bytes) -> None:
        """Take in more of the line."""
        data, self.rest, at = bytes(self.rest) + data, b"", 0
        if not self.out:
            data = data.lstrip(SPACES)
        if not (self.out or data).startswith(b"{"):
            self.out += data[: PREVIEW_BYTES - len(self.out)]
            self.broken = bool(self.out)
        while at < len(data) and not self.broken:
            at = self._step(data, at)
            too_much = len(self.out) > MOST_BYTES or len(self.open) > MAX_DEPTH
            self.broken = self.broken or too_much

    def _step(self, data: bytes, at: int) -> int:
        if self.string is not None:
            return self._in_string(self.string, data, at)
        if self.left_out is not None:
            return self._leave_out(self.left_out, data, at)
        return self._token(data, at)

    # --- what is kept -----------------------------------------------------------------

    def _token(self, data: bytes, at: int) -> int:
        match = _TOKEN.match(data, at)
        assert match is not None
        token = match[0]
        read = _READ.get(token)
        if read is not None:
            read(self, token)
        elif token[0] not in SPACES:
            self.out += token[: MAX_SCALAR_BYTES - self.scalar]
            self.scalar += len(token)
            self.broken = self.scalar > MAX_SCALAR_BYTES
            return match.end()
        self.scalar = 0
        return match.end()

    def _begin(self, bracket: bytes) -> None:
        if len(self.open) >= SHALLOW and len(self.out) > DEEP_BYTES:
            self.left_out = 0
        self.out += bracket
        self.open += bracket
        self.items.append(0)

    def _end(self, bracket: bytes) -> None:
        self.broken = not self.open or _CLOSING[bytes(self.open[-1:])] != bracket
        if not self.broken:
            self.out += bracket
            self.open.pop()
            self.items.pop()

    def _next(self, comma: bytes) -> None:
        if not self.items:
            self.broken = True
            return
        self.items[-1] += 1
        if self.items[-1] >= MAX_ITEMS:
            self.left_out = 0
        else:
            self.out += comma

    def _colon(self, colon: bytes) -> None:
        self.out += colon

    # --- strings ----------------------------------------------------------------------

    def _begin_string(self, quote: bytes) -> None:
        self.out += quote
        self.string, self.cut = bytearray(), False
        self.room = SHORT_BYTES if len(self.out) > DEEP_BYTES else STRING_BYTES

    def _in_string(self, string: bytearray, data: bytes, at: int) -> int:
        """Up to the string's end, or the data's."""
        match = _STRING.match(data, at)
        assert match is not None
        end = match.end()
        kept = min(end, at + self.room)
        string += data[at:kept]
        self.room -= kept - at
        self.cut = self.cut or kept < end
        if data[end : end + 1] == b'"':
            self._end_string(bytes(string))
            return end + 1
        self.rest = data[end:]
        return len(data)

    def _end_string(self, kept: bytes) -> None:
        self.string = None
        if self.left_out is not None:
            return
        if self.cut:
            whole = _WHOLE_ESCAPES.match(kept)
            assert whole is not None
            kept = whole[0].decode("utf-8", "ignore").encode() + CUT
        self.out += kept + b'"'

    # --- what is left out -------------------------------------------------------------

    def _leave_out(self, depth: int, data: bytes, at: int) -> int:
        """Up to the bracket that closes what is open, which is kept, or to the data's end."""
        for match in _LEFT_OUT.finditer(data, at):
            bracket = match[2]
            if bracket is None:
                if match[1] is None:
                    self.left_out, self.string, self.room = depth, bytearray(), 0
                    return match.start() + 1
            elif bracket in _CLOSING:
                depth += 1
            elif depth:
                depth -= 1
            else:
                self.left_out = None
                return match.start()
        self.left_out = depth
        return len(data)

    # --- snapshots --------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that `restore` needs, as JSON values."""
        return {name: _told(value) for name, value in asdict(self).items()}

    @classmethod
    def restore(cls, snapshot: Mapping[str, Any]) -> "Shortener":
        """The one that ``snapshot`` was taken of."""
        return cls(**{name: _taken(value) for name, value in snapshot.items()})


_READ = {
    b'"': Shortener._begin_string,
    b"{": Shortener._begin,
    b"[": Shortener._begin,
    b"}": Shortener._end,
    b"]": Shortener._end,
    b",": Shortener._next,
    b":": Shortener._colon,
}


def _told(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else value


def _taken(value: Any) -> Any:
    if isinstance(value, str):
        return bytearray(base64.b64decode(value))
    return [*value] if isinstance(value, list) else value
