"""What an agent says of itself within its words: a line ``<|status: PHASE | LABEL|>``.

Supervisors have asked agents for such lines before; what they say is what the run does now.
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .view import View

MARKER = re.compile(r"\s*<\|status:\s*([A-Za-z][\w-]*)\s*(?:\|\s*([^|<>]*?)\s*)?\|>\s*")
FENCE = re.compile(r"\s*(```|~~~)")
# No marker is longer, nor is what precedes a fence.
MAX_LINE_CHARACTERS = 512


def read(view: "View", text: str) -> str | None:
    """What the newest marker says that ``text``, the next piece of a message, completes."""
    said = None
    *whole, rest = (view.marker_line + text).split("\n")
    for line in whole:
        said = _read_line(view, line) or said
    view.marker_line = rest[: MAX_LINE_CHARACTERS + 1]
    # The last line of a message need not end.
    return (_said(rest) if not view.fenced else None) or said


def _read_line(view: "View", line: str) -> str | None:
    if FENCE.match(line):
        view.fenced = not view.fenced
        return None
    return None if view.fenced else _said(line)


def _said(line: str) -> str | None:
    if len(line) > MAX_LINE_CHARACTERS or "<|status:" not in line:
        return None
    found = MARKER.fullmatch(line)
    return (found[2] or found[1]) if found else None
