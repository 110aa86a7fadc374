"""Permission requests: what the agent asks, and the form of each answer."""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp import messages
from coachman_adapters.conversation import Option
from coachman_adapters.events import OPTION_KINDS

QUESTION_CHARS = 300
NAME_CHARS = 200
MAX_OPTIONS = 32
# Nobody reads more: further questions are refused while so many are open.
MAX_OPEN = 64
_VERBS = {
    "read": "Read",
    "edit": "Edit",
    "delete": "Delete",
    "move": "Move",
    "search": "Search",
    "execute": "Run",
    "fetch": "Fetch",
}


def options(params: Mapping[str, Any]) -> tuple[Option, ...]:
    """What can be chosen. Options of unknown kinds cannot."""
    given = params.get("options")
    offered = (
        Option(option["optionId"], option["kind"], _name(option))
        for option in (given if isinstance(given, list) else ())
        if _is_option(option)
    )
    return tuple(islice(offered, MAX_OPTIONS))


def _name(option: Mapping[str, Any]) -> str:
    return str(option.get("name") or option["optionId"])[:NAME_CHARS]


def _is_option(option: Any) -> bool:
    return (
        isinstance(option, dict)
        and texts.is_id(option.get("optionId"))
        and option.get("kind") in OPTION_KINDS
    )


def question(tool: Mapping[str, Any]) -> str:
    """One line that says what is to be allowed."""
    title = " ".join(str(tool.get("title") or tool.get("name") or "a tool").split())
    verb = _VERBS.get(str(tool.get("kind")), "Allow")
    # Some titles are sentences already.
    shown = title if title.startswith(f"{verb} ") else f"{verb} {title}"
    shown = shown.rstrip("?")
    return (shown if len(shown) <= QUESTION_CHARS else shown[:QUESTION_CHARS] + "…") + "?"


def outcome(option: str | None, offered: Collection[str]) -> Mapping[str, Any]:
    """The result for a decision; an option that was never offered decides nothing."""
    return messages.selected(option) if option in offered and option else messages.cancelled()
