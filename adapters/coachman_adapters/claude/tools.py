"""Claude Code's tools: what each is, and its calls and results as the tool book takes them."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import Event, Span

READS = ("Read", "NotebookRead", "ReadMcpResource")
EDITS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
RUNS = ("Bash", "BashOutput", "KillShell", "KillBash", "Monitor", "PowerShell")
SEARCHES = ("Grep", "Glob", "LS", "LSP", "ToolSearch", "WebSearch")
THINKS = ("Agent", "Task", "TodoWrite", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList", "Skill")
KINDS = {
    **dict.fromkeys(READS, "read"),
    **dict.fromkeys(EDITS, "edit"),
    **dict.fromkeys(RUNS, "execute"),
    **dict.fromkeys(SEARCHES, "search"),
    **dict.fromkeys(THINKS, "think"),
    "WebFetch": "fetch",
    "EnterPlanMode": "switch_mode",
    "ExitPlanMode": "switch_mode",
}
# The first of these in a call's input says what it is about.
_PATHS = ("file_path", "notebook_path", "path")
_SUBJECTS = ("command", *_PATHS, "url", "query", "pattern", "description", "skill", "subject")


def described(call: Any, name: Any, given: Any) -> dict[str, Any]:
    """A tool call in the members that `Tools` takes."""
    name = name if isinstance(name, str) and name else "tool"
    values = given if isinstance(given, dict) else {}
    subject = _first(values, _SUBJECTS)
    path = _first(values, _PATHS)
    return {
        "toolCallId": call,
        "name": name,
        "title": subject or name,
        "kind": KINDS.get(name, "other"),
        "rawInput": values,
        "locations": [{"path": path}] if path else [],
        "content": _diff(name, path, values),
    }


def used(tools: Tools, block: Mapping[str, Any], span: Span) -> list[Event]:
    """The model calls a tool."""
    given = described(block.get("id"), block.get("name"), block.get("input"))
    return tools.upsert({**given, "status": "pending"}, span)


def returned(tools: Tools, block: Mapping[str, Any], span: Span) -> list[Event]:
    """A tool's result, which says whether it failed and not always why."""
    status = "failed" if block.get("is_error") is True else "completed"
    told = {"toolCallId": block.get("tool_use_id"), "status": status}
    return tools.upsert({**told, "rawOutput": _text(block.get("content"))}, span)


def _first(values: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    found = (values.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), None)


def _diff(name: str, path: str | None, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What an edit replaces by what, as far as its input says."""
    new = _first(values, ("new_string", "content", "new_source"))
    if KINDS.get(name) != "edit" or path is None or new is None:
        return []
    return [{"type": "diff", "path": path, "oldText": values.get("old_string"), "newText": new}]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(_shown(block) for block in blocks if isinstance(block, dict))


def _shown(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type', 'content')}]"
