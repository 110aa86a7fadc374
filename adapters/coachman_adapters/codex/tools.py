"""codex's tools in the words of ACP, which are those of every other agent too."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

Item = Mapping[str, Any]

_STATUSES = {
    "inProgress": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "declined": "failed",
    "interrupted": "cancelled",
}
_PAGES = ("openPage", "findInPage")
_SHELL_WORDS = 3
_MAX_SHLEX_CHARS = 8192


def described(item: Item, done: bool) -> dict[str, Any] | None:
    """The tool call that an item is; None for an item that is none."""
    describe = _TOOLS.get(str(item.get("type")))
    if describe is None:
        return None
    status = _STATUSES.get(str(item.get("status")), "completed" if done else "in_progress")
    return {"toolCallId": item.get("id"), "status": status, **describe(item)}


def script(command: Any) -> str:
    """A command as the model gave it, without the shell that codex wraps around it."""
    text = command if isinstance(command, str) else ""
    if len(text) > _MAX_SHLEX_CHARS:
        return text
    try:
        parts = shlex.split(text)
    except ValueError:
        return text
    wrapped = len(parts) == _SHELL_WORDS and parts[1] in ("-lc", "-c")
    return parts[2] if wrapped else text


def command(item: Item) -> dict[str, Any]:
    """A command; one that has no process yet waits, maybe for a permission."""
    text = script(item.get("command"))
    told: dict[str, Any] = {"name": "exec_command", "kind": "execute", "title": text}
    told["rawInput"] = {"command": text}
    if item.get("status") == "inProgress" and item.get("processId", "") is None:
        told["status"] = "pending"
    output, code = item.get("aggregatedOutput"), item.get("exitCode")
    if item.get("status") != "inProgress" and (output or code is not None):
        told["rawOutput"] = {"output": output or "", "exit_code": code}
    return told


def change(item: Item) -> dict[str, Any]:
    """A patch. Only the app server tells its text."""
    given = item.get("changes")
    changes = [each for each in (given if isinstance(given, list) else ()) if _is_change(each)]
    paths = [each["path"] for each in changes]
    waits = {"status": "pending"} if item.get("status") == "inProgress" else {}
    return {
        "name": "apply_patch",
        "kind": "edit",
        "title": ", ".join(paths) or "a patch",
        "locations": [{"path": path} for path in paths],
        "rawInput": {"changes": [{"path": each["path"], "kind": _kind(each)} for each in changes]},
        "content": [_patch(each) for each in changes if isinstance(each.get("diff"), str)],
        **waits,
    }


def _is_change(each: Any) -> bool:
    return isinstance(each, dict) and isinstance(each.get("path"), str)


def _kind(each: Item) -> str:
    kind = each.get("kind")
    return str(kind.get("type") if isinstance(kind, dict) else kind)


def _patch(each: Item) -> dict[str, Any]:
    """A new file comes as its text, all else as a unified diff."""
    if _kind(each) == "add":
        return {"type": "diff", "path": each["path"], "newText": each["diff"]}
    return {"type": "patch", "path": each["path"], "patch": each["diff"]}


def _mcp(item: Item) -> dict[str, Any]:
    name = mcp_name(item.get("server"), item.get("tool"))
    told = {"name": name, "title": name, "kind": "other", "rawInput": item.get("arguments")}
    error = item.get("error")
    failed = error.get("message") if isinstance(error, dict) else error
    output = item.get("result") if failed is None else failed
    return told if output is None else told | {"rawOutput": output}


def mcp_name(server: Any, tool: Any) -> str:
    """What a tool of an MCP server is called."""
    return f"{server}.{tool}"


def _dynamic(item: Item) -> dict[str, Any]:
    name = str(item.get("tool"))
    told = {"name": name, "title": name, "kind": "other", "rawInput": item.get("arguments")}
    output = item.get("contentItems")
    return told if output is None else told | {"rawOutput": output}


def _collaboration(item: Item) -> dict[str, Any]:
    name, prompt = str(item.get("tool")), item.get("prompt")
    given = {"prompt": prompt} if prompt else {}
    return {"name": name, "title": name, "kind": "other", "rawInput": given}


def _search(item: Item) -> dict[str, Any]:
    given = item.get("action")
    action = given if isinstance(given, dict) else {}
    kind = "fetch" if action.get("type") in _PAGES else "search"
    title = str(item.get("query") or action.get("url") or "the web")
    return {"name": "web_search", "title": title, "kind": kind, "rawInput": action}


def _view(item: Item) -> dict[str, Any]:
    path = str(item.get("path"))
    told = {"name": "view_image", "title": path, "kind": "read"}
    return {**told, "locations": [{"path": path}]}


def _named(item: Item) -> dict[str, Any]:
    name = str(item.get("type"))
    return {"name": name, "title": name, "kind": "other"}


_TOOLS: Mapping[str, Callable[[Item], dict[str, Any]]] = {
    "commandExecution": command,
    "fileChange": change,
    "mcpToolCall": _mcp,
    "dynamicToolCall": _dynamic,
    "collabAgentToolCall": _collaboration,
    "collabToolCall": _collaboration,
    "webSearch": _search,
    "imageView": _view,
    "imageGeneration": _named,
    "sleep": _named,
}
