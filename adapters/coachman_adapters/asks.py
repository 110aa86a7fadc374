"""The questions that an agent waits for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from coachman_adapters.acp.permissions import MAX_OPEN
from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import Action, Answer, Event, Withdraw
from coachman_adapters.events import NOTICE
from coachman_adapters.turn_state import FAILED, TurnState

CROWDED = {
    "text": f"{MAX_OPEN} questions wait for an answer: more are refused until one has it",
    "severity": "warning",
}
T = TypeVar("T", bound=TurnState)


class OpenAsks(ABC, Generic[T]):
    """The unanswered questions in ``state``: asked once, answered once, or taken back."""

    def __init__(self, state: T, tools: Tools) -> None:
        self._state = state
        self._tools = tools

    def answer(self, answer: Answer) -> list[Action]:
        """Tell the decision; a question that is no longer open is left alone."""
        asked = self._state.asks.pop(answer.request, None)
        return [] if asked is None else self._answered(asked, answer)

    @abstractmethod
    def _answered(self, asked: Mapping[str, Any], answer: Answer) -> list[Action]:
        """What a decision leads to."""

    @abstractmethod
    def _refusal(self, asked: Mapping[str, Any]) -> Action:
        """The answer that nobody chose anything."""

    def take_back(self, number: Any) -> list[Action]:
        """The agent waits for the answer to this question of its own no more."""
        for key, asked in self._state.asks.items():
            if asked["id"] == number and type(asked["id"]) is type(number):
                del self._state.asks[key]
                return [Withdraw(key)]
        return []

    def refuse(self) -> list[Action]:
        """Answer all that nobody chose anything, for a caller that knows."""
        refusals = [self._refusal(asked) for asked in self._state.asks.values()]
        self._state.asks.clear()
        return refusals

    def settle(self) -> list[Action]:
        """The turn ended over questions that nobody answered."""
        return [*self._withdrawn(), *self.refuse()]

    def forget(self) -> list[Action]:
        """The agent is gone; nobody waits any more."""
        withdrawn = self._withdrawn()
        self._state.asks.clear()
        return withdrawn

    def _open(self, asked: dict[str, Any]) -> str:
        """Remember a question; its key."""
        self._state.asked += 1
        self._state.crowded = False
        key = f"p{self._state.asked}"
        self._state.asks[key] = asked
        return key

    def _turn_away(self, asked: Mapping[str, Any]) -> list[Action]:
        """Refuse a question at once. That too many are open is told, once until there is room."""
        state = self._state
        if len(state.asks) < MAX_OPEN or state.crowded:
            return [self._refusal(asked)]
        state.crowded = True
        return [Event(NOTICE, CROWDED), self._refusal(asked)]

    def _is_refused(self) -> bool:
        """Whether nobody is to be asked any more."""
        state = self._state
        over = state.cancelled or state.closing or state.phase == FAILED
        return over or len(state.asks) >= MAX_OPEN

    def _withdrawn(self) -> list[Action]:
        return [Withdraw(key) for key in self._state.asks]
