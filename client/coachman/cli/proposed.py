"""What an agent asks to do, in lines: the change that it would make, the command it would run."""

import json

from .visible import cut, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOST_LINES = 20
LINE_COLUMNS = 400
# What is compared in earnest: an agent chooses the texts, and comparing is quadratic.
COMPARED_LINES = 400
_INDENT = "      "


def proposed(request: "Mapping[str, Any]", run: str) -> list[str]:
    """The first lines of it, and where the rest is; none where the question says it all."""
    lines = _lines(request)
    shown = [_INDENT + cut(line, LINE_COLUMNS) for line in lines[:MOST_LINES]]
    more = len(lines) - MOST_LINES
    if more > 0:
        what = "1 more line" if more == 1 else f"{more} more lines"
        shown.append(f"{_INDENT}… {what}: coachman permissions {visible(run)} --json")
    elif any(len(line) > LINE_COLUMNS for line in lines):
        shown.append(f"{_INDENT}… whole: coachman permissions {visible(run)} --json")
    return shown


def _lines(request: "Mapping[str, Any]") -> list[str]:
    tool = request.get("tool")
    if not isinstance(tool, dict):
        return []
    content = tool.get("content")
    items = content if isinstance(content, list) else []
    changes = [line for item in items if isinstance(item, dict) for line in _change(item)]
    given = tool.get("input")
    members = given if isinstance(given, dict) else {"input": given} if given else {}
    asked = str(request.get("question") or "")
    told = [] if changes else [line for each in members.items() for line in _member(*each, asked)]
    return changes + told


def _change(item: "Mapping[str, Any]") -> list[str]:
    """A change to a file, as lines that go and lines that come."""
    path = item.get("path")
    head = [f"{path}:"] if isinstance(path, str) else []
    if isinstance(item.get("patch"), str):
        return [*head, *item["patch"].rstrip("\n").split("\n")]
    if item.get("type") != "diff" or not isinstance(item.get("newText"), str):
        return []
    old = item.get("oldText")
    return [*head, *_compared(_split(old if isinstance(old, str) else ""), _split(item["newText"]))]


def _split(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _compared(old: list[str], new: list[str]) -> list[str]:
    if old and len(old) + len(new) <= COMPARED_LINES:
        import difflib

        return [line.rstrip("\n") for line in difflib.unified_diff(old, new, n=1, lineterm="")][2:]
    return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]


def _member(name: object, value: object, asked: str) -> list[str]:
    """A member of a tool's input, unless the question has it already."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text.strip() or text in asked:
        return []
    return f"{name}: {text}".rstrip("\n").split("\n")
