"""Patterns of paths: ``*`` and ``?`` within one name, ``**`` over any number of folders."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from .commands import BRACKETS

MAX_CHARACTERS = 4096
ANY = "**"


def fault(pattern: str) -> str | None:
    """What is wrong with a pattern, None where nothing is."""
    if not pattern or len(pattern) > MAX_CHARACTERS or "\0" in pattern:
        return "1 to 4096 characters without NUL"
    if {".", "..", "~"} & set(pattern.removesuffix("/").split("/")) or "//" in pattern:
        return "a plain path, without `.`, `..`, `~` and `//`"
    return None


def matches(pattern: str, path: str) -> bool:
    """Whether a normalized path is one of the pattern's; one that ends in ``/`` means all below.

    An agent chooses the path: whatever it is, no step is tried more than once for each name.
    """
    wanted = (pattern + ANY if pattern.endswith("/") else pattern).split("/")
    if wanted[-1] == ANY:
        # The last means at least one name, the others any number.
        wanted[-1:] = [ANY, "*"]
    return _match([name.translate(BRACKETS) for name in wanted], path.split("/"))


def _match(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """Only the last ``**`` is ever tried with more names: those before it took the fewest."""
    at = step = 0
    back: tuple[int, int] | None = None
    while at < len(names):
        if step < len(wanted) and wanted[step] == ANY:
            step += 1
            back = (step, at)
        elif step < len(wanted) and fnmatchcase(names[at], wanted[step]):
            at, step = at + 1, step + 1
        elif back is not None:
            back = (back[0], back[1] + 1)
            step, at = back
        else:
            return False
    return all(name == ANY for name in wanted[step:])
