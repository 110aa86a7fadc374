"""A run as text: merged messages, one line a tool. Derived from its journal."""

from pathlib import Path
from typing import Any

from coachman.tool_failures import reason

from ...journal import vocabulary as v
from ...journal.lines import decode
from ...journal.log import read_file

Entry = dict[str, Any]
KIND_OF_CHUNK = {v.MESSAGE_CHUNK: "message", v.THOUGHT_CHUNK: "thought", v.USER_CHUNK: "user"}
# The words of `coachman tail` for who settled a request.
WHO = {
    "policy": "by policy",
    "deadline": "at its deadline",
    "cancel": "because the run was cancelled",
    "turn": "because the turn is over",
    "interrupt": "because the turn was interrupted",
    "agent": "withdrawn by the agent",
}
# Those that are told by their own words.
NAMED = {"rule": "rule", "file": "the file", "hook": "the hook"}


# What follows where a program that is fed the events fails.
_THEN = {"again": ", is run again", "given_up": ", gets no more"}
# What a tool's last word must not be once its turn is over.
_AT_WORK = ("pending", "in_progress")
CHECK_LINES = 20


def transcript(path: Path) -> list[Entry]:
    """The transcript of a journal file: {seq, ts, kind, text} each. Blocks."""
    made = Transcript()
    seq = offset = 0
    while True:
        lines, offset = read_file(path, seq, offset)
        if not lines:
            return made.entries
        seq = lines[-1].seq
        for line in lines:
            made.take(decode(line.data))


class Transcript:
    """Entries in the order of their events, a tool's line after what was asked about it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._tools: dict[str, Entry] = {}
        self._asked_about: set[str] = set()
        self._requests: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Transcript of {len(self.entries)} entries>"

    def take(self, event: dict[str, Any]) -> None:
        """Add one event of the journal."""
        kind = event["type"]
        if kind in KIND_OF_CHUNK:
            self._merge(event, KIND_OF_CHUNK[kind])
        elif kind in (v.TOOL_CALL, v.TOOL_UPDATE):
            self._tool(event)
        elif kind == v.PERMISSION_REQUESTED:
            self._requested(event)
        elif kind == v.PERMISSION_RESOLVED:
            self._resolved(event)
        elif kind == v.CHECK_ENDED:
            self._checked(event)
        elif (line := _line(event)) is not None:
            if kind in (v.TURN_ENDED, v.RUN_ENDED):
                self._leave_tools()
            self._add(event, *line)

    def _add(self, event: dict[str, Any], kind: str, text: str) -> Entry:
        entry = {"seq": event["seq"], "ts": event["ts"], "kind": kind, "text": text}
        self.entries.append(entry)
        return entry

    def _merge(self, event: dict[str, Any], kind: str) -> None:
        last = self.entries[-1] if self.entries else {}
        message_id = event.get("message_id")
        if last.get("kind") == kind and last.get("message_id") == message_id:
            last["text"] += event["text"]
            return
        self._add(event, kind, event["text"])["message_id"] = message_id

    def _tool(self, event: dict[str, Any]) -> None:
        identity = event["tool_call_id"]
        known = self._tools.get(identity)
        if known is None:
            known = self._tools[identity] = self._add(event, "tool", "")
        elif identity in self._asked_about:
            self._asked_about.discard(identity)
            # What was asked and answered comes first: the tool did nothing before.
            self.entries.remove(known)
            known["seq"], known["ts"] = event["seq"], event["ts"]
            self.entries.append(known)
        known["name"] = event.get("name") or known.get("name", "")
        known["title"] = _shorter(known.get("title"), event.get("title")) or known["name"]
        known["status"] = event.get("status") or known.get("status")
        if event.get("output") is not None:
            known["why"] = reason(event["output"])
        _tell(known)

    def _leave_tools(self) -> None:
        """The turn is over: of what still seems to be at work nobody will hear the end."""
        for known in self._tools.values():
            if known["status"] in _AT_WORK:
                known["status"] = "not_finished"
                _tell(known)

    def _requested(self, event: dict[str, Any]) -> None:
        tool = event.get("tool") or {}
        text = _named(tool.get("name") or tool.get("kind") or "", event["question"])
        self._asked_about.add(tool.get("tool_call_id") or "")
        self._requests[event["request"]] = text
        self._add(event, "permission", text)

    def _resolved(self, event: dict[str, Any]) -> None:
        by = event.get("by") or {}
        asked = self.entries[-1] if self.entries else {}
        text = self._requests.pop(event["request"], None)
        if by.get("resolver") == "policy" and asked.get("text") == text is not None:
            allowed = str(event.get("kind")).startswith("allow")
            # Nobody was asked: one line says it all.
            self.entries.pop()
            self._add(event, "answer", f"{'allowed' if allowed else 'denied'} by policy: {text}")
            return
        chosen = str(event.get("kind") or event.get("outcome")).replace("_", " ")
        message = f": {event['message']}" if event.get("message") else ""
        self._add(event, "answer", f"{chosen}, {_who(by)}{message}")

    def _checked(self, event: dict[str, Any]) -> None:
        """How the check ended and, where it failed, the end of what it said."""
        if event.get("exit") == 0:
            self._add(event, "state", "check passed")
            return
        how = event.get("error") or f"exit status {event.get('exit')}"
        self._add(event, "state", f"check failed: {how}")
        said = str(event.get("output") or "").rstrip().splitlines()[-CHECK_LINES:]
        if said:
            self._add(event, "output", "\n".join(said))


def _shorter(known: str | None, told: str | None) -> str | None:
    """The newer title, unless it is the known one as a whole path."""
    if known and told and told.endswith("/" + known):
        return known
    return told or known


def _tell(tool: Entry) -> None:
    how = _ended_how(tool["status"])
    if tool["status"] == "failed" and tool.get("why"):
        how = f" [failed: {tool['why']}]"
    tool["text"] = _named(tool["name"], tool["title"] or "a tool") + how


def _named(name: str, text: str) -> str:
    return f"{name}: {text}" if name and not text.startswith(name) else text


def _ended_how(status: str | None) -> str:
    return f" [{status.replace('_', ' ')}]" if status and status != "completed" else ""


def _who(by: dict[str, Any]) -> str:
    if (known := WHO.get(str(by.get("resolver")))) is not None:
        return known
    if (kind := NAMED.get(str(by.get("resolver")))) is not None:
        return f"by {kind} {by.get('rule') or by.get('path')}"
    who = by.get("user") or by.get("client") or by.get("resolver") or "someone"
    return f"by {who}, pid {by['pid']}" if by.get("pid") else f"by {who}"


def _line(event: dict[str, Any]) -> tuple[str, str] | None:
    """Kind and text of what is one line by itself."""
    match event["type"]:
        case v.TURN_STARTED:
            title = f": {event['title']}" if event.get("title") else ""
            return "state", f"turn {event['turn']} started{title}"
        case v.TURN_ENDED:
            return "state", _turn_ended(event)
        case v.TURN_INTERRUPTED:
            return "state", f"turn {event['turn']} interrupted {_who(event['by'])}"
        case v.PROMPT_DROPPED:
            return "state", f"prompt dropped: {event['title']}"
        case v.RUN_ENDED:
            return "state", _verdict(event)
        case v.PERMISSION_PASSED:
            return "state", f"not settled {_who(event.get('by') or {})}: {event['reason']}"
        case v.DEADLINE_EXPIRED:
            return "state", f"deadline expired: {event.get('which')}"
        case v.CHECK_STARTED | v.SETUP_STARTED:
            return "state", f"{event['type'].partition('.')[0]}: {event['command']}"
        case v.NOTICE | v.ERROR:
            return _told(event)
        case _:
            return _in_words(event)


def _told(event: dict[str, Any]) -> tuple[str, str]:
    """The same of what the agent notes, and of what went wrong beside it."""
    if event["type"] == v.ERROR:
        return "error", str(event["message"])
    return "note", str(event.get("text"))


def _in_words(event: dict[str, Any]) -> tuple[str, str] | None:
    """The same of the gate's decisions, of feeds, of questions in words and of answers."""
    if event["type"] == v.NETWORK_DECIDED and event.get("reason"):
        where = f"{event['host']}:{event['port']}" if event["host"] else "a request"
        verdict = "not reached" if event["allowed"] else "denied"
        return "state", f"network: {where} {verdict}, {event.get('why') or event['reason']}"
    if event["type"] == v.FEED_FAILED:
        then = _THEN.get(event["then"], "")
        return "state", f"{event['program']}, fed these events: {event['reason']}{then}"
    if event["type"] == v.QUESTION_ASKED:
        return "question", str(event["question"])
    if event["type"] != v.QUESTION_ANSWERED:
        return None
    answer = f": {event['answer']}" if event.get("answer") else ""
    return "answer", f"{event['outcome']}, {_who(event.get('by') or {})}{answer}"


def _turn_ended(event: dict[str, Any]) -> str:
    error = (event.get("error") or {}).get("message")
    return f"turn ended: {event['stop_reason']}" + (f": {error}" if error else "")


def _verdict(event: dict[str, Any]) -> str:
    error = event.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    outcome = str(event["outcome"])
    why = error or (event.get("stop_reason") if outcome != "succeeded" else None)
    return outcome.replace("_", " ") + (f": {why}" if why and why != outcome else "")
