"""pi's tool calls in the members that all agents' have."""

from collections.abc import Mapping
from typing import Any

_KINDS = {
    "bash": "execute",
    "powershell": "execute",
    "codemode": "execute",
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "grep": "search",
    "find": "search",
    "ls": "search",
    "tool_search": "search",
}
_SUBJECTS = ("command", "path", "pattern", "query")


def described(call: Any, name: Any, given: Any) -> dict[str, Any]:
    """A tool call before it runs, in the words of ACP."""
    name = name if isinstance(name, str) else "tool"
    told: dict[str, Any] = {"toolCallId": call, "name": name, "kind": _KINDS.get(name, "other")}
    arguments = given if isinstance(given, Mapping) else {}
    subjects = (arguments[key] for key in _SUBJECTS if isinstance(arguments.get(key), str))
    told["title"] = next(subjects, name)
    path = arguments.get("path")
    if isinstance(path, str) and path:
        told["locations"] = [{"path": path}]
    return told | {"rawInput": arguments}


def finished(event: Mapping[str, Any]) -> dict[str, Any]:
    """The update that a tool call's end means."""
    result = event.get("result")
    content = result.get("content") if isinstance(result, Mapping) else None
    blocks = content if isinstance(content, list) else []
    found = [block["text"] for block in blocks if isinstance(block, dict) and "text" in block]
    told: dict[str, Any] = {
        "toolCallId": event.get("toolCallId"),
        "status": "failed" if event.get("isError") is True else "completed",
    }
    return told | ({"rawOutput": "\n".join(str(text) for text in found)} if found else {})
