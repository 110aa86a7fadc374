"""Patterns of paths: ``*`` and ``?`` within one name, ``**`` over any number of folders."""

import re
from functools import lru_cache

MAX_CHARACTERS = 4096


def fault(pattern: str) -> str | None:
    """What is wrong with a pattern, None where nothing is."""
    if not pattern or len(pattern) > MAX_CHARACTERS or "\0" in pattern:
        return "1 to 4096 characters without NUL"
    if {".", "..", "~"} & set(pattern.removesuffix("/").split("/")) or "//" in pattern:
        return "a plain path, without `.`, `..`, `~` and `//`"
    return None


def matches(pattern: str, path: str) -> bool:
    """Whether a normalized path is one of the pattern's; one that ends in ``/`` means all below."""
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.endswith("/"):
        pattern += "**"
    names = pattern.split("/")
    parts = []
    for number, name in enumerate(names):
        last = number == len(names) - 1
        if name == "**":
            parts.append(".*" if last else "(?:[^/]*/)*")
        else:
            parts.append(_name(name) + ("" if last else "/"))
    return re.compile("".join(parts), re.DOTALL)


def _name(name: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(character, re.escape(character)) for character in name)
