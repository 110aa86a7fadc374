"""The questions an agent waits for: asked once, answered once, or taken back."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters.acp import frames, messages, permissions
from coachman_adapters.acp.frames import Request
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.acp.state import State
from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import Action, Answer, Event, Span, Withdraw, Write


class Asks:
    """The unanswered permission requests in ``state``."""

    def __init__(self, state: State, tools: Tools, quirks: Quirks) -> None:
        self._state = state
        self._tools = tools
        self._quirks = quirks

    def request(self, request: Request, span: Span, refuse: bool) -> list[Action]:
        """Ask, after telling the tool call if it is new; or refuse at once."""
        given = request.params.get("toolCall")
        told, tool = self._tools.asked(given if isinstance(given, dict) else {}, span)
        if refuse or len(self._state.asks) >= permissions.MAX_OPEN:
            return [*told, Write(frames.result(request.id, messages.cancelled()))]
        self._state.asked += 1
        key = f"p{self._state.asked}"
        ask = permissions.ask(key, tool, request.params)
        offered = {option.id: option.kind for option in ask.options}
        call = tool.get("tool_call_id")
        self._state.asks[key] = {"id": request.id, "options": offered, "call": call}
        return [*told, ask]

    def answer(self, answer: Answer) -> list[Action]:
        """Tell the decision; a question that is no longer open is left alone."""
        asked = self._state.asks.pop(answer.request, None)
        if asked is None:
            return []
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
        for key, asked in self._state.asks.items():
            if asked["id"] == number and type(asked["id"]) is type(number):
                del self._state.asks[key]
                return [Withdraw(key), Write(frames.result(number, messages.cancelled()))]
        return []

    def refuse(self) -> list[Action]:
        """Answer all with "cancelled", for a caller that knows."""
        ids = [asked["id"] for asked in self._state.asks.values()]
        self._state.asks.clear()
        return [Write(frames.result(number, messages.cancelled())) for number in ids]

    def settle(self) -> list[Action]:
        """The turn ended over questions that nobody answered."""
        withdrawn: list[Action] = [Withdraw(key) for key in self._state.asks]
        return withdrawn + self.refuse()

    def forget(self) -> list[Action]:
        """The agent is gone; nobody waits any more."""
        withdrawn: list[Action] = [Withdraw(key) for key in self._state.asks]
        self._state.asks.clear()
        return withdrawn
