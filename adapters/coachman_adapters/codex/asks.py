"""The questions that codex waits for: asked once, answered once, or taken back."""

from typing import Any

from attrs import evolve

from coachman_adapters.acp.frames import Request
from coachman_adapters.acp.permissions import MAX_OPEN, question
from coachman_adapters.acp.tools import Tools
from coachman_adapters.codex import frames
from coachman_adapters.codex.questions import PATCH, READERS
from coachman_adapters.codex.state import State
from coachman_adapters.conversation import Action, Answer, Ask, Span, Withdraw, Write


class Asks:
    """The unanswered questions in ``state``."""

    def __init__(self, state: State, tools: Tools) -> None:
        self._state = state
        self._tools = tools

    def request(self, request: Request, span: Span, refuse: bool) -> list[Action]:
        """Ask, after telling the tool call if it is new; or refuse what nobody is to be asked."""
        read = READERS.get(request.method)
        params = {
            **request.params,
            PATCH: self._state.patches.get(str(request.params.get("itemId"))),
        }
        asked = read(params, self._tools, span) if read else None
        if asked is None:
            text = f"nobody answers {request.method[:100]}"
            return [Write(frames.error(request.id, frames.METHOD_NOT_FOUND, text))]
        if refuse or len(self._state.asks) >= MAX_OPEN:
            return [*asked.told, Write(frames.result(request.id, asked.cancel))]
        self._state.asked += 1
        key = f"p{self._state.asked}"
        self._state.asks[key] = {
            "id": request.id,
            "results": {option.id: result for option, result in asked.choices},
            "allow": [option.id for option, _ in asked.choices if option.kind[:5] == "allow"],
            "cancel": asked.cancel,
            "call": asked.tool.get("tool_call_id"),
        }
        options = tuple(option for option, _ in asked.choices)
        return [*asked.told, Ask(key, asked.tool, question(asked.tool), options)]

    def answer(self, answer: Answer) -> list[Action]:
        """Tell the decision; a question that is no longer open is left alone."""
        asked = self._state.asks.pop(answer.request, None)
        if asked is None:
            return []
        result = asked["results"].get(answer.option, asked["cancel"])
        write: list[Action] = [Write(frames.result(asked["id"], result))]
        if answer.option not in asked["allow"] or asked["call"] is None:
            return write
        runs = {"toolCallId": asked["call"], "status": "in_progress"}
        told = self._tools.upsert(runs, Span(0, 0))
        return [*write, *(evolve(event, span=None) for event in told)]

    def resolved(self, number: Any) -> list[Action]:
        """codex no longer waits for an answer."""
        for key, asked in self._state.asks.items():
            if asked["id"] == number and type(asked["id"]) is type(number):
                del self._state.asks[key]
                return [Withdraw(key)]
        return []

    def refuse(self) -> list[Action]:
        """Answer all with "cancel", for a caller that knows."""
        open_asks = list(self._state.asks.values())
        self._state.asks.clear()
        return [Write(frames.result(asked["id"], asked["cancel"])) for asked in open_asks]

    def settle(self) -> list[Action]:
        """The turn ended over questions that nobody answered."""
        withdrawn: list[Action] = [Withdraw(key) for key in self._state.asks]
        return withdrawn + self.refuse()

    def forget(self) -> list[Action]:
        """codex is gone; nobody waits any more."""
        withdrawn: list[Action] = [Withdraw(key) for key in self._state.asks]
        self._state.asks.clear()
        return withdrawn
