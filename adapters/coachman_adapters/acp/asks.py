"""The questions an agent waits for: asked once, answered once, or taken back."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp import forms, frames, messages, permissions
from coachman_adapters.acp.frames import Request
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.acp.state import State
from coachman_adapters.acp.tools import Tools
from coachman_adapters.asks import OpenAsks
from coachman_adapters.conversation import Action, Answer, Ask, Event, Span, Write


class Asks(OpenAsks[State]):
    """The unanswered permission requests in ``state``."""

    def __init__(self, state: State, tools: Tools, quirks: Quirks) -> None:
        super().__init__(state, tools)
        self._quirks = quirks

    def request(self, request: Request, span: Span) -> list[Action]:
        """Ask, after telling the tool call if it is new; or refuse at once."""
        given = request.params.get("toolCall")
        told, tool = self._tools.asked(given if isinstance(given, dict) else {}, span)
        asked = {"id": request.id, "call": tool.get("tool_call_id")}
        if self._is_refused():
            return [*told, *self._turn_away(asked)]
        options = permissions.options(request.params)
        asked["options"] = {option.id: option.kind for option in options}
        return [*told, Ask(self._open(asked), tool, permissions.question(tool), options)]

    def elicit(self, request: Request, span: Span) -> list[Action]:
        """Ask what a form asks; one that no single answer fills in is cancelled at once."""
        call = request.params.get("toolCallId")
        told: list[Event] = []
        tool: dict[str, Any] = {"tool_call_id": None, "title": "a question", "kind": "other"}
        if texts.is_id(call) and call in self._tools.known:
            told, tool = self._tools.asked({"toolCallId": call}, span)
        fields = forms.read(request.params)
        asked = {"id": request.id, "call": call, "form": fields or {}}
        if fields is None or self._is_refused():
            return [*told, *self._turn_away(asked)]
        question, options = forms.text(request.params), forms.options(fields)
        return [*told, Ask(self._open(asked), tool, question, options)]

    def _answered(self, asked: Mapping[str, Any], answer: Answer) -> list[Action]:
        if "form" in asked:
            filled = forms.result(asked["form"], answer.option, answer.message)
            return [Write(frames.result(asked["id"], filled))]
        outcome = permissions.outcome(answer.option, asked["options"])
        return [Write(frames.result(asked["id"], outcome)), *self._follows(answer, asked)]

    def _follows(self, answer: Answer, asked: Mapping[str, Any]) -> list[Event]:
        """What becomes of the tool call, where the agent does not say."""
        if not self._quirks.asks_first or asked["call"] is None:
            return []
        allowed = asked["options"].get(answer.option, "").startswith("allow")
        tools, call = self._tools, asked["call"]
        return tools.begin(call) if allowed else tools.end(call, "failed")

    def take_back(self, number: Any) -> list[Action]:
        """The agent cancelled its own request, which still gets an answer."""
        known = [each for each in self._state.asks.values() if each["id"] == number]
        taken = super().take_back(number)
        return [*taken, self._refusal(known[0])] if taken else []

    def _refusal(self, asked: Mapping[str, Any]) -> Action:
        cancelled = forms.CANCELLED if "form" in asked else messages.cancelled()
        return Write(frames.result(asked["id"], cancelled))
