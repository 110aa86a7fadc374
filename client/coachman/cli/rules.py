"""``--rule`` and ``--permission-handler``, from what people type to what the wire takes."""

import os

from ..errors import UsageError
from ..wire import TOOL_KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DECISIONS = ("allow", "always", "deny", "ask")
_COMMANDS = "execute"
_ANY = "any"
_FORM = "write DECISION KINDS [PATTERN], as in: deny edit,delete **/.env"


def rule_of(text: str) -> "dict[str, Any]":
    """``DECISION KINDS [PATTERN]``: the pattern is of commands for `execute`, else of paths."""
    words = text.split(None, 2)
    decide, kinds = (*words, "", "")[:2]
    if decide not in _DECISIONS or not kinds:
        raise UsageError(f"cannot run --rule {text!r}: it is no rule", hint=_FORM)
    rule: dict[str, Any] = {"decide": decide}
    if kinds != _ANY:
        rule["tool"] = kinds.split(",")
        for kind in rule["tool"]:
            if kind not in TOOL_KINDS:
                raise UsageError(
                    f"cannot run --rule {text!r}: {kind!r} is no kind of tool",
                    hint=f"one of {', '.join(TOOL_KINDS)}, or {_ANY}",
                )
    if len(words) > len(("decision", "kinds")):
        if _COMMANDS in rule.get("tool", ()) and kinds != _COMMANDS:
            raise UsageError(
                f"cannot run --rule {text!r}: the pattern of `{_COMMANDS}` is of commands,"
                " that of others is of paths",
                hint="make it two rules",
            )
        rule["command" if kinds == _COMMANDS else "path"] = words[2].strip()
    return rule


def handler_of(text: str | None) -> str | None:
    """The handler, its path made absolute."""
    kind, colon, path = (text or "").partition(":")
    return f"{kind}:{os.path.abspath(path)}" if colon and path else text
