"""The questions an agent waits for: asked once, answered once, or taken back."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters.acp import frames, messages, permissions
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

    def _answered(self, asked: Mapping[str, Any], answer: Answer) -> list[Action]:
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
        taken = super().take_back(number)
        return [*taken, self._refusal({"id": number})] if taken else []

    def _refusal(self, asked: Mapping[str, Any]) -> Action:
        return Write(frames.result(asked["id"], messages.cancelled()))
