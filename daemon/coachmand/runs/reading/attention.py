"""What a run needs from a person: something that it does not get over by itself.

One kind a case, the most urgent first. A limit that ends by itself, a place that will be free
and a run that has ended need nobody.
"""

from typing import Any

from .view import View

Attention = dict[str, Any]


def attention_of(view: View) -> Attention | None:
    """What the run waits for a person to do or decide; None where it needs nobody."""
    found = _credentials(view) or _permission(view) or _question(view)
    return found or _storage(view) or _stall(view)


def next_of(handle: str, attention: Attention) -> list[list[str]]:
    """The commands that answer it, or that show what it is about."""
    match attention["kind"]:
        case "permission":
            return [["coachman", "answer", handle, choice] for choice in ("allow", "deny")]
        case "question" if attention["options"]:
            return [["coachman", "answer", handle, option["id"]] for option in attention["options"]]
        case "question":
            return [["coachman", "permissions", handle]]
        case "credentials":
            return [["coachman", "answer", handle, "lend"]]
        case "storage":
            return [["coachman", "status"], ["coachman", "cleanup"]]
        case _:
            return [["coachman", "log", handle], ["coachman", "interrupt", handle]]


def _credentials(view: View) -> Attention | None:
    """A daemon was restarted, and what the run's shell had lent went with it."""
    if (waits := view.credentials) is None:
        return None
    names = ", ".join(waits["names"])
    what = f"the daemon was restarted: your shell has to lend {names} again"
    return _about("credentials", what, waits["epoch_ms"])


def _permission(view: View) -> Attention | None:
    """The oldest open question."""
    if view.state != "waiting" or view.goes_on:
        return None
    for asked in view.pending.values():
        return {
            "kind": "permission",
            "request": asked.request,
            "question": asked.question,
            "tool": asked.tool,
            "options": asked.options,
            "deadline": asked.deadline,
        }
    return None


def _question(view: View) -> Attention | None:
    """What its agent asks in words, its parent or whoever watches; an option is its number."""
    if view.state not in ("active", "waiting") or view.goes_on:
        return None
    for asked in view.questions.values():
        options = [
            {"id": str(number), "kind": "answer", "name": name}
            for number, name in enumerate(asked.options, 1)
        ]
        found = _about("question", asked.question, asked.deadline)
        return {**found, "request": asked.request, "options": options}
    return None


def _storage(view: View) -> Attention | None:
    """It is held because the disk is full."""
    if view.state != "waiting" or view.reason != "storage":
        return None
    return _about("storage", "the disk is full: held until there is room")


def _stall(view: View) -> Attention | None:
    """Its agent said nothing for so long that it is about to be ended."""
    if view.state != "active" or view.stalls_at is None:
        return None
    return _about("stall", "no word from the agent: it is ended if there is none", view.stalls_at)


def _about(kind: str, what: str, deadline: int | None = None) -> Attention:
    return {
        "kind": kind,
        "request": None,
        "question": what,
        "tool": None,
        "options": [],
        "deadline": deadline,
    }
