"""A run as text: merged messages, one line a tool. Derived from its journal."""

from pathlib import Path
from typing import Any

from ..journal import vocabulary as v
from ..journal.lines import decode
from ..journal.log import read_file

Entry = dict[str, Any]
KIND_OF_CHUNK = {v.MESSAGE_CHUNK: "message", v.THOUGHT_CHUNK: "thought", v.USER_CHUNK: "user"}


def transcript(path: Path) -> list[Entry]:
    """The transcript of a journal file: {seq, ts, kind, text} each. Blocks."""
    entries: list[Entry] = []
    tools: dict[str, Entry] = {}
    seq = offset = 0
    while True:
        lines, offset = read_file(path, seq, offset)
        if not lines:
            return entries
        seq = lines[-1].seq
        for line in lines:
            _take(decode(line.data), entries, tools)


def _take(event: dict[str, Any], entries: list[Entry], tools: dict[str, Entry]) -> None:
    kind = event["type"]
    if kind in KIND_OF_CHUNK:
        _merge(event, KIND_OF_CHUNK[kind], entries)
    elif kind in (v.TOOL_CALL, v.TOOL_UPDATE):
        _tool(event, entries, tools)
    elif (text := _text(event)) is not None:
        entries.append({"seq": event["seq"], "ts": event["ts"], "kind": _kind(kind), "text": text})


def _merge(event: dict[str, Any], kind: str, entries: list[Entry]) -> None:
    last = entries[-1] if entries else {}
    message_id = event.get("message_id")
    if last.get("kind") == kind and last.get("message_id") == message_id:
        last["text"] += event["text"]
        return
    entry = {"seq": event["seq"], "ts": event["ts"], "kind": kind, "text": event["text"]}
    entries.append({**entry, "message_id": message_id})


def _tool(event: dict[str, Any], entries: list[Entry], tools: dict[str, Entry]) -> None:
    known = tools.get(event["tool_call_id"])
    if known is None:
        known = {"seq": event["seq"], "ts": event["ts"], "kind": "tool", "title": "tool"}
        tools[event["tool_call_id"]] = known
        entries.append(known)
    known["title"] = event.get("title") or event.get("name") or known["title"]
    status = event.get("status")
    known["text"] = known["title"] + (f" [{status}]" if status else "")


def _kind(type_: str) -> str:
    return "permission" if type_.startswith("permission.") else "state"


def _text(event: dict[str, Any]) -> str | None:
    match event["type"]:
        case v.PERMISSION_REQUESTED:
            return f"asks: {event['question']}"
        case v.PERMISSION_RESOLVED:
            by = event.get("by") or {}
            chosen = event.get("kind") or event.get("outcome")
            return f"{chosen}, by {by.get('user') or by.get('resolver')}"
        case v.TURN_STARTED:
            return f"turn {event['turn']} started"
        case v.TURN_ENDED:
            return f"turn ended: {event['stop_reason']}"
        case v.RUN_ENDED:
            return f"{event['outcome']} ({event['stop_reason']})"
        case v.NOTICE:
            return str(event.get("text"))
        case _:
            return None
