"""What pi's extensions want of a person: our own asks for permission, others are declined."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import events, jsonlines, texts
from coachman_adapters.acp import permissions
from coachman_adapters.asks import OpenAsks
from coachman_adapters.conversation import Action, Answer, Ask, Event, Option, Span
from coachman_adapters.pi import commands
from coachman_adapters.pi.state import State
from coachman_adapters.pi.tools import described

TITLE = "coachman: permission"
WAITING = frozenset({"select", "confirm", "input", "editor"})
OPTIONS = (
    Option("allow_once", "allow_once", "Allow"),
    Option("allow_always", "allow_always", "Allow this tool from now on"),
    Option("reject_once", "reject_once", "Deny", takes_message=True),
)
_KINDS = frozenset(option.id for option in OPTIONS)


class Dialogs(OpenAsks[State]):
    """The unanswered questions in ``state``."""

    def request(self, given: Mapping[str, Any], span: Span) -> list[Action]:
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
        return self._ask(dialog, asked, span)

    def _ask(self, dialog: str, asked: Mapping[str, Any], span: Span) -> list[Action]:
        told, tool = self._tools.asked(
            described(asked.get("call"), asked.get("tool"), asked.get("input")), span
        )
        known = {"id": dialog, "call": str(tool.get("tool_call_id"))}
        if self._is_refused():
            return [*told, *self._turn_away(known)]
        return [*told, Ask(self._open(known), tool, permissions.question(tool), OPTIONS)]

    def settle(self) -> list[Action]:
        """pi waits for none once its turn is over."""
        return self.forget()

    def _refusal(self, asked: Mapping[str, Any]) -> Action:
        return commands.dismiss(asked["id"])

    def _answered(self, asked: Mapping[str, Any], answer: Answer) -> list[Action]:
        if answer.option not in _KINDS:
            return [self._refusal(asked)]
        said = {"message": answer.message} if answer.message else {}
        write = commands.answer(asked["id"], {"kind": answer.option, **said})
        if answer.option == "reject_once":
            return [write]
        return [write, *self._tools.begin(asked["call"])]


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
