"""One journal line: how it is written, cut to size and read back."""

from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import define, field, frozen

from coachman.wire import MAX_EVENT_BYTES

# Room for the envelope and for what escaping adds to text cut to this size.
MAX_TEXT_BYTES = 64 * 1024
FORMAT_ERROR = "a journal line is not a JSON object"


@frozen
class Entry:
    """What is to be appended: a type and its own members, before seq and time are known.

    ``n`` numbers the lines that a conversation emitted; the daemon's own carry none.
    ``reference`` says where in the raw log the whole of it lies, should it be cut; ``cut``: it
    was already.
    """

    type: str
    members: Mapping[str, Any] = field(factory=dict)
    n: int | None = None
    reference: Mapping[str, Any] | None = None
    cut: bool = False


@define
class Line:
    """One event as it lies in the journal. ``data`` is its JSON without the newline."""

    seq: int
    data: bytes
    _wire: bytes | None = field(default=None, repr=False)

    def wire(self, run: str) -> bytes:
        """The end of its notification, the same for every subscriber."""
        if self._wire is None:
            cursor = encode_cursor(run, self.seq).encode()
            self._wire = b'"cursor":"' + cursor + b'","event":' + self.data + b"}}\n"
        return self._wire


def encode_cursor(run: str, seq: int) -> str:
    """An opaque position after ``seq`` of ``run``."""
    return f"1.{run}.{seq}"


def decode_cursor(cursor: str) -> tuple[str, int]:
    """The run and seq of a cursor; ValueError for anything that is not one."""
    version, run, seq = cursor.split(".")
    if version != "1" or not run:
        raise ValueError(cursor)
    return run, int(seq)


def encode(event: dict[str, Any], reference: Mapping[str, Any] | None = None) -> bytes:
    """``event`` as one line of JSON of at most 256 KiB; longer text is cut and referenced."""
    data = dump(event)
    if len(data) <= MAX_EVENT_BYTES:
        return data
    slim = {key: _cut(value) for key, value in event.items()}
    slim["cut"] = dict(reference or {})
    data = dump(slim)
    if len(data) <= MAX_EVENT_BYTES:
        return data
    envelope = ("type", "seq", "g", "ts", "run", "attempt", "turn", "session", "n")
    return dump({k: slim[k] for k in envelope if k in slim} | {"cut": slim["cut"]})


def decode(data: bytes) -> dict[str, Any]:
    """The event of one line; ValueError where it is not one."""
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    if not isinstance(event, dict):
        raise ValueError(FORMAT_ERROR)
    return event


def check(data: bytes) -> bytes:
    """``data`` where it is JSON at all, found out without making anything of it; ValueError."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    return data


def seq_of(data: bytes) -> int:
    """The seq of a line, without reading the rest: the envelope opens with type and seq."""
    start = data.index(b'"seq":') + 6
    return int(data[start : data.index(b",", start)])


def g_of(data: bytes) -> int:
    """The place of a line among those of all runs; 0 where it was written before there was one."""
    start = data.index(b",", data.index(b'"seq":') + 6) + 1
    if not data.startswith(b'"g":', start):
        return 0
    return int(data[start + 4 : data.index(b",", start)])


def ts_of(data: bytes) -> int:
    """When a line was written, in ms, without reading the rest."""
    start = data.index(b'"ts":') + 5
    return int(data[start : data.index(b",", start)])


def dump(event: dict[str, Any]) -> bytes:
    """``event`` as JSON, whatever text it holds."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(_scrub(event))


def _scrub(value: Any) -> Any:
    """Lone surrogates, which JSON allows and UTF-8 does not, become U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrub(item) for item in value]
    return value


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT_BYTES // 4:
        return value[: MAX_TEXT_BYTES // 4]
    if isinstance(value, Mapping):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(item) for item in value[:64]]
    return value
