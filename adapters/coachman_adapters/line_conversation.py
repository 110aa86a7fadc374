"""What conversations with agents that say one thing a line have in common."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import attrs
from attrs import define, field

from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import Action, AgentRequest, CloseStdin
from coachman_adapters.lines import Line, LineDecoder
from coachman_adapters.noises import Noises


@define
class LineState:
    """The whole memory of such a conversation.

    Every member, also of what derives from it, is JSON: so a snapshot is complete by
    construction. ``cancelled``: the turn that runs is to end.
    """

    cancelled: bool = False
    stdin_closed: bool = False
    tools: dict[str, dict[str, Any]] = field(factory=dict)
    noise: int = 0
    noise_held: dict[str, Any] | None = None

    def snapshot(self) -> dict[str, Any]:
        return copy.deepcopy(attrs.asdict(self, recurse=False))


S = TypeVar("S", bound=LineState)


class LineConversation(ABC, Generic[S]):
    """Reads lines, and tells those that mean nothing as noise."""

    def __init__(self, request: AgentRequest, state: S) -> None:
        self._request = request
        self._decoder = LineDecoder()
        self._adopt(state)

    def receive(self, data: bytes) -> list[Action]:
        """Handle the lines that ``data`` completes."""
        return self._lines(self._decoder.feed(data))

    def snapshot(self) -> dict[str, Any]:
        """Everything this conversation remembers, as JSON values."""
        return {"decoder": self._decoder.snapshot(), "state": self._state.snapshot()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Become the conversation that ``snapshot`` was taken of."""
        self._decoder.restore(snapshot["decoder"])
        self._adopt(type(self._state)(**copy.deepcopy(snapshot["state"])))

    def _adopt(self, state: S) -> None:
        """Make anew what looks into the memory."""
        self._state = state
        self._tools = Tools(state.tools)
        self._noises = Noises(state)

    @abstractmethod
    def _line(self, line: Line) -> list[Action]:
        """What a line leads to."""

    def _lines(self, lines: list[Line]) -> list[Action]:
        actions: list[Action] = []
        for line in lines:
            if line.data is None or line.data.strip():
                actions += self._line(line)
        return actions

    def _last_lines(self) -> list[Action]:
        """All that the agent still said, once it is gone."""
        return [*self._lines(self._decoder.finish()), *self._noises.flush()]

    def _close(self) -> list[Action]:
        if self._state.stdin_closed:
            return []
        self._state.stdin_closed = True
        return [CloseStdin()]
