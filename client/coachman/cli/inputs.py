"""What a run is handed: files and directories by path, or their bytes from inside a sandbox."""

import base64
import os

from ..errors import UsageError
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A request over a run's own socket is one line of at most 1 MiB, and base64 takes a third more.
MAX_BYTES = 512 * 1024


def given_inputs(words: list[str], *, as_bytes: bool) -> "dict[str, Any]":
    """The parameters of `run.start`; ``as_bytes`` where no path may be named."""
    pairs = [_pair(word) for word in words]
    if not as_bytes:
        paths = [{"path": os.path.abspath(path), "name": name} for path, name in pairs]
        return {"inputs": [_without_none(each) for each in paths] or None}
    data: dict[str, str] = {}
    left = MAX_BYTES
    for path, given in pairs:
        name = given if given is not None else os.path.basename(path)
        if name in data:
            raise UsageError(f"cannot run --input: two are named {visible(name)}")
        content = _content(path)
        left -= len(content)
        if left < 0:
            raise UsageError(
                f"cannot run --input: over {MAX_BYTES >> 10} KiB in all from inside a run",
                hint="leave it in your tree: a run that you start begins with that",
            )
        data[name] = base64.b64encode(content).decode()
    return {"input_data": data or None}


def _pair(word: str) -> tuple[str, str | None]:
    """PATH or PATH=NAME; a path that is there as it is written has no name in it."""
    path, separator, named = word.rpartition("=")
    name: str | None = named
    if not separator or os.path.lexists(word):
        path, name = word, None
    if not path:
        raise UsageError("cannot run --input: no path is named", hint="--input PATH[=NAME]")
    return path, name


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"cannot run --input {visible(path)}: {why}") from None


def _without_none(members: "dict[str, str | None]") -> "dict[str, str]":
    return {name: value for name, value in members.items() if value is not None}
