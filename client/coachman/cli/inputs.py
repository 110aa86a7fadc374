"""What a run is handed: files and directories by path, or files that are open inside a sandbox."""

import os

from ..errors import UsageError
from ..wire import DELEGATE_DESCRIPTORS
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TREE = "leave in your tree what it needs: a run that you start begins with that"


def given_inputs(words: list[str], *, is_run: bool) -> "dict[str, Any]":
    """The parameters of `run.start`; a run (``is_run``) may name no path, and opens them itself."""
    pairs = [_pair(word) for word in words]
    if not is_run:
        paths = [{"path": os.path.abspath(path), "name": name} for path, name in pairs]
        return {"inputs": [_without_none(each) for each in paths] or None}
    if len(pairs) > DELEGATE_DESCRIPTORS:
        text = f"cannot run --input: over {DELEGATE_DESCRIPTORS} from inside a run"
        raise UsageError(text, hint=_TREE)
    opened: dict[str, int] = {}
    for path, given in pairs:
        name = given if given is not None else os.path.basename(path)
        if name in opened:
            raise UsageError(f"cannot run --input: two are named {visible(name)}")
        # Closed with this process, which a start is all of.
        opened[name] = _opened(path)
    return {"input_descriptors": opened or None}


def _pair(word: str) -> tuple[str, str | None]:
    """PATH or PATH=NAME; a path that is there as it is written has no name in it."""
    path, separator, named = word.rpartition("=")
    name: str | None = named
    if not separator or os.path.lexists(word):
        path, name = word, None
    if not path:
        raise UsageError("cannot run --input: no path is named", hint="--input PATH[=NAME]")
    return path, name


def _opened(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"cannot run --input {visible(path)}: {why}") from None
    if not os.path.isfile(f"/proc/self/fd/{descriptor}"):
        raise UsageError(f"cannot run --input {visible(path)}: it is no regular file", hint=_TREE)
    return descriptor


def _without_none(members: "dict[str, str | None]") -> "dict[str, str]":
    return {name: value for name, value in members.items() if value is not None}
