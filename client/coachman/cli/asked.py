"""What agents and runs ask, and how that was settled, in words."""

from .render import tool_name
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_WHO = {
    "policy": "by policy",
    "deadline": "at its deadline",
    "cancel": "because the run was cancelled",
    "turn": "because the turn is over",
    "interrupt": "because the turn was interrupted",
    "agent": "withdrawn by the agent",
}
# Nobody is waited for where these answer.
AT_ONCE = ("policy", "rule")
# Those of which there are several, by what they are called.
_NAMED = {"rule": "rule", "file": "the file", "hook": "the hook"}


def asked_whole(request: "Mapping[str, Any]") -> str:
    """The whole question with its tool; line breaks are kept and indented."""
    name = tool_name(request.get("tool"))
    text = visible(request.get("question") or "", lines=True).replace("\n", "\n      ")
    return f"{name}: {text}" if name and not text.startswith(name) else text


def question_whole(question: "Mapping[str, Any]") -> str:
    """What a run asks in words; line breaks are kept and indented."""
    return visible(question.get("question") or "", lines=True).rstrip().replace("\n", "\n      ")


def option_names(question: "Mapping[str, Any]") -> list[str]:
    """The answers that a run offers itself, numbered as `answer` takes them."""
    return [f"{at} {visible(name)}" for at, name in enumerate(question.get("options") or (), 1)]


def reply_text(reply: "Mapping[str, Any]") -> str:
    """What came of a question in words: ``answered, by you (coachman), pid 312: blue``."""
    words = visible(reply.get("outcome") or "settled")
    answer = visible(reply.get("answer") or "", lines=True).rstrip().replace("\n", "\n      ")
    return f"{words}, {resolver(reply.get('by'))}" + (f": {answer}" if answer else "")


def choice_names(request: "Mapping[str, Any]") -> list[str]:
    """The options, numbered as `answer` takes them."""
    return [
        f"{number} {visible(option.get('name') or option.get('kind'))}"
        for number, option in enumerate(request.get("options") or (), 1)
    ]


def answer_text(resolved: "Mapping[str, Any]") -> str:
    """How a request was settled: ``allow once, by you (coachman), pid 312``."""
    chosen = resolved.get("kind") or resolved.get("option_kind") or resolved.get("outcome")
    words = visible(chosen or "settled").replace("_", " ")
    message = f": {visible(resolved['message'])}" if resolved.get("message") else ""
    return f"{words}, {resolver(resolved.get('by'))}{message}"


def resolver(by: "Any") -> str:
    """Who answered."""
    if not isinstance(by, dict):
        return f"by {visible(by)}" if by else "by someone"
    kind = str(by.get("resolver"))
    if (known := _WHO.get(kind)) is not None:
        return known
    if kind in _NAMED:
        return f"by {_NAMED[kind]} {visible(by.get('rule') or by.get('path'))}"
    client = by.get("client")
    if isinstance(client, dict):
        client = client.get("name")
    who = visible(by.get("user") or client or by.get("resolver") or "someone")
    return f"by {who}, pid {by['pid']}" if by.get("pid") else f"by {who}"
