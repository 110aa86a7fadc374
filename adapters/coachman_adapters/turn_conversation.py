"""What conversations with agents that take one prompt after the other have in common."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from coachman_adapters import failing
from coachman_adapters.asks import OpenAsks
from coachman_adapters.conversation import (
    Action,
    Answer,
    Ending,
    Intent,
    Prompt,
    SetTimer,
    TurnEnded,
)
from coachman_adapters.endings import exited
from coachman_adapters.line_conversation import LineConversation
from coachman_adapters.turn_state import FAILED, READY, TurnState

_OVER = {"message": "the run takes no more prompts", "code": "closed"}
T = TypeVar("T", bound=TurnState)
A = TypeVar("A", bound=OpenAsks[Any])


class TurnConversation(LineConversation[T], Generic[T, A]):
    """Sends prompts one by one and ends each turn once.

    Who derives from it has `_asks`, and says how a prompt is sent and a turn interrupted.
    """

    _asks: A
    # Those that run before the first prompt can be sent.
    TIMERS: tuple[str, ...]

    @property
    @abstractmethod
    def _is_prompted(self) -> bool:
        """Whether the agent has a prompt that it has not done with."""

    @abstractmethod
    def _send(self, text: str) -> list[Action]:
        """Give the agent a prompt."""

    @abstractmethod
    def _interrupt(self) -> list[Action]:
        """Tell the agent to end its turn; its questions are refused or withdrawn with it."""

    @abstractmethod
    def _forget_turn(self) -> None:
        """Forget the prompt that was sent: it is over."""

    def intend(self, intent: Intent) -> list[Action]:
        """Take a prompt, an answer or a cancel."""
        if isinstance(intent, Prompt):
            return self._queue(intent.text)
        if isinstance(intent, Answer):
            return self._asks.answer(intent)
        return self._cancel()

    def finish(self, ending: Ending) -> list[Action]:
        """The agent is gone: settle what is open."""
        state = self._state
        actions = [*self._last_lines(), *self._asks.forget()]
        if state.phase != FAILED:
            state.phase = FAILED
            state.failure = exited("agent", ending, "before its turn was over", state.hint)
            actions += self._end_all()
        return actions

    # --- prompts --------------------------------------------------------------------

    def _queue(self, text: str) -> list[Action]:
        state = self._state
        state.queue.append(text)
        over = state.phase == FAILED or state.closing
        return self._end_all() if over else self._prompt()

    def _prompt(self) -> list[Action]:
        """Send the next prompt, one at a time: what agents do with two differs wildly."""
        state = self._state
        if state.phase != READY or self._is_prompted or not state.queue:
            return []
        return self._send(state.queue.pop(0))

    def _cancel(self) -> list[Action]:
        state = self._state
        if self._is_prompted and not state.cancelled:
            state.cancelled = True
            return self._interrupt()
        if not self._is_prompted and state.queue:
            # The agent never heard of this turn, so there is nothing to confirm.
            state.queue.pop(0)
            return self._turn_over(TurnEnded("cancelled"))
        return self._asks.refuse()

    # --- ends -----------------------------------------------------------------------

    def _turn_over(self, ended: TurnEnded) -> list[Action]:
        state = self._state
        actions = self._asks.settle()
        if ended.stop_reason == "cancelled":
            actions += self._tools.close("cancelled")
        self._forget_turn()
        state.cancelled = False
        actions.append(ended)
        if self._request.keep:
            return actions + self._prompt()
        state.closing = True
        return actions + self._leave()

    def _leave(self) -> list[Action]:
        """Let the agent go after its only turn."""
        return self._close()

    def _fail(self, error: Mapping[str, Any]) -> list[Action]:
        """The session cannot be had: say so for each prompt, let the agent go."""
        state = self._state
        state.phase, state.failure = FAILED, dict(error)
        state.requests.clear()
        timers: list[Action] = [SetTimer(name, None) for name in self.TIMERS]
        return [*timers, *self._asks.settle(), *self._end_all(), *self._close()]

    def _end_all(self) -> list[Action]:
        """End the running prompt and those that wait with the failure."""
        state = self._state
        turns = len(state.queue) + self._is_prompted
        self._forget_turn()
        state.queue.clear()
        return [failing.failed(state.failure or _OVER) for _ in range(turns)]
