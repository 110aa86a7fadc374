"""What pi's extensions want of a person: our own asks for permission, others are declined."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import events, jsonlines, texts
from coachman_adapters.acp import permissions
from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import Action, Answer, Ask, Event, Option, Span, Withdraw
from coachman_adapters.pi import commands
from coachman_adapters.pi.state import State
from coachman_adapters.pi.tools import described

TITLE = "coachman: permission"
WAITING = frozenset({"select", "confirm", "input", "editor"})
OPTIONS = (
    Option("allow_once", "allow_once", "Allow"),
    Option("allow_always", "allow_always", "Allow this tool from now on"),
    Option("reject_once", "reject_once", "Deny"),
)
_KINDS = frozenset(option.id for option in OPTIONS)


class Dialogs:
    """The unanswered questions in ``state``."""

    def __init__(self, state: State, tools: Tools) -> None:
        self._state = state
        self._tools = tools

    def request(self, given: Mapping[str, Any], span: Span, refuse: bool) -> list[Action]:
        """Ask for permission where that is wanted; tell what is only shown; decline the rest."""
        dialog, method = given.get("id"), str(given.get("method"))
        if method not in WAITING:
            return [*_shown(given, span)]
        if not texts.is_id(dialog):
            return [Event(events.UNKNOWN, texts.fit({"raw": dict(given)}, span.size), span)]
        asked = jsonlines.decode(str(given.get("placeholder")).encode("utf-8", "replace"))
        if method != "input" or given.get("title") != TITLE or asked is None:
            members = {"text": f"a dialog was declined: {given.get('title')}"}
            declined = Event(events.NOTICE, texts.fit(members, span.size), span)
            return [declined, commands.dismiss(dialog)]
        return self._ask(dialog, asked, span, refuse)

    def _ask(self, dialog: str, asked: Mapping[str, Any], span: Span, refuse: bool) -> list[Action]:
        told, tool = self._tools.asked(
            described(asked.get("call"), asked.get("tool"), asked.get("input")), span
        )
        if refuse or len(self._state.asks) >= permissions.MAX_OPEN:
            return [*told, commands.dismiss(dialog)]
        self._state.asked += 1
        key = f"p{self._state.asked}"
        self._state.asks[key] = {"dialog": dialog, "call": str(tool.get("tool_call_id"))}
        return [*told, Ask(key, tool, permissions.question(tool), OPTIONS)]

    def answer(self, answer: Answer) -> list[Action]:
        """Tell the decision; a question that is no longer open is left alone."""
        asked = self._state.asks.pop(answer.request, None)
        if asked is None:
            return []
        if answer.option not in _KINDS:
            return [commands.dismiss(asked["dialog"])]
        said = {"message": answer.message} if answer.message else {}
        write = commands.answer(asked["dialog"], {"kind": answer.option, **said})
        if answer.option == "reject_once":
            return [write]
        return [write, *self._tools.begin(asked["call"])]

    def refuse(self) -> list[Action]:
        """Answer all with "cancelled", for a caller that knows: an abort waits for them."""
        dialogs = [asked["dialog"] for asked in self._state.asks.values()]
        self._state.asks.clear()
        return [commands.dismiss(dialog) for dialog in dialogs]

    def forget(self) -> list[Action]:
        """Nobody waits for an answer any more."""
        withdrawn: list[Action] = [Withdraw(key) for key in self._state.asks]
        self._state.asks.clear()
        return withdrawn


def _shown(given: Mapping[str, Any], span: Span) -> list[Event]:
    """What an extension shows. Titles and editor texts are a terminal's own."""
    text: Any = given.get("message") or given.get("statusText")
    lines = given.get("widgetLines")
    if text is None and isinstance(lines, list):
        text = "\n".join(str(line) for line in lines)
    if not isinstance(text, str) or not text:
        return []
    severity = given.get("notifyType")
    members = {"text": text, **({"severity": severity} if isinstance(severity, str) else {})}
    return [Event(events.NOTICE, texts.fit(members, span.size), span)]
