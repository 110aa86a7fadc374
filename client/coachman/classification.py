"""What an event means to who watches many: a milestone, a finding, or activity.

The rules are the tables below. A word of an agent is judged by whole lines, however its pieces
were cut, so what completes a line is what the line is.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MILESTONE, FINDING, ACTIVITY = "milestone", "finding", "activity"

# What changes where a run stands, or needs somebody.
MILESTONE_TYPES = frozenset(
    {
        "budget.exceeded",
        "check.ended",
        "deadline.expired",
        "error",
        "feed.failed",
        "limit.reached",
        "permission.requested",
        "question.asked",
        "run.ended",
        "run.recovered",
        "run.started",
        "turn.ended",
    }
)
# Members that make an event of these types one as well.
MILESTONE_MEMBERS = (
    ("run.state", "to", frozenset({"waiting", "parked"})),
    ("agent.status", "phase", frozenset({"waiting", "done"})),
)
# What a tool did that others will see: told once it is through.
MILESTONE_TOOLS = re.compile(r"\bgit\b[^\n|;&]*\b(commit|push|merge|rebase|tag)\b")
# Whole families of events.
MILESTONE_PREFIXES = ("flow.", "task.")

# A line of an agent's that says what it found.
FINDING_LINES = re.compile(
    r"^\W*(finding|bug|root cause|regression|vulnerability|security issue)\b\W*:"
    r"|\[finding\]"
    r"|\b(tests?|checks?) (fail|fails|failed|is failing|are failing)\b"
    r"|\b\d+ (failed|failures?|errors?)\b",
    re.IGNORECASE,
)
# How sure an agent says it is, from which on its word counts.
CONFIDENCE = re.compile(r"\bconfidence\W{1,3}(\d{1,3}) ?%", re.IGNORECASE)
CONFIDENT_PERCENT = 60
TEXTS = frozenset({"agent.message_chunk", "agent.thought_chunk"})
TOOLS = frozenset({"tool.call", "tool.call_update"})
LINE_CHARACTERS = 4096
OPEN_TOOLS = 1024


class Classifier:
    """Classifies the events of one run, in their order."""

    def __init__(self) -> None:
        self._line = ""
        self._of: object = None
        self._tools: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Classifier with {len(self._tools)} open tools>"

    def classify(self, event: "Mapping[str, Any]") -> str:
        """``milestone``, ``finding`` or ``activity``."""
        kind = str(event.get("type"))
        if kind in TEXTS:
            return self._text(kind, event)
        if kind in TOOLS:
            return self._tool(event)
        if kind in MILESTONE_TYPES or kind.startswith(MILESTONE_PREFIXES):
            return MILESTONE
        is_one = any(
            kind == type_ and event.get(member) in values
            for type_, member, values in MILESTONE_MEMBERS
        )
        return MILESTONE if is_one else ACTIVITY

    def _text(self, kind: str, event: "Mapping[str, Any]") -> str:
        of = (kind, event.get("message_id"))
        text = str(event.get("text") or "")
        *whole, rest = ((self._line if of == self._of else "") + text).split("\n")
        self._of, self._line = of, rest[-LINE_CHARACTERS:]
        # An agent may end its message without ending the line: what it says so far counts, too.
        return FINDING if any(map(is_finding, [*whole, rest])) else ACTIVITY

    def _tool(self, event: "Mapping[str, Any]") -> str:
        call, status = str(event.get("tool_call_id")), event.get("status")
        said = " ".join(str(event[name]) for name in ("title", "input") if event.get(name))
        does = MILESTONE_TOOLS.search(said)
        if does and len(self._tools) < OPEN_TOOLS:
            self._tools[call] = does[0]
        if status not in ("completed", "failed"):
            return ACTIVITY
        seen = self._tools.pop(call, None)
        if status == "failed":
            return FINDING
        return MILESTONE if seen else ACTIVITY


def is_finding(line: str) -> bool:
    """Whether a line of an agent's says that it found something."""
    sure = CONFIDENCE.search(line)
    if sure is not None and CONFIDENT_PERCENT <= int(sure[1]) <= 100:
        return True
    return FINDING_LINES.search(line) is not None
