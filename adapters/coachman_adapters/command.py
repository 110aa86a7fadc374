"""Any program as a bounded agent.

The prompt is the program's stdin, then EOF. All of its stdout is one message; the
final message is thus the output, and where that is cut its end is what counts. The
terminal record is the exit status: 0 is ``end_turn``, and done also without a word;
anything else is an error.
"""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from coachman_adapters.blocks import Block, BlockCutter
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    AgentSpec,
    Cancel,
    CloseStdin,
    Conversation,
    Ending,
    Event,
    Intent,
    LaunchPlan,
    Prompt,
    SetTimer,
    Span,
    TurnEnded,
    Write,
)
from coachman_adapters.endings import exited
from coachman_adapters.events import MESSAGE_CHUNK

MESSAGE_ID = "stdout"
FLUSH = "flush"
# A question without a newline, or the last lines before a silence, are shown after it.
FLUSH_AFTER_S = 0.25


class CommandConversation:
    """One program's run: a single prompt in, its output out."""

    def __init__(self) -> None:
        self._output = BlockCutter()
        self._prompted = False
        self._cancelled = False

    def __repr__(self) -> str:
        return f"<CommandConversation {'running' if self._prompted else 'waiting'}>"

    def start(self) -> list[Action]:
        """A program says nothing that would have to be answered."""
        return []

    def receive(self, data: bytes) -> list[Action]:
        """Each block of output is a chunk of the message."""
        waited = self._output.waiting
        actions: list[Action] = [_told(block) for block in self._output.feed(data)]
        if self._output.waiting and (actions or not waited):
            actions.append(SetTimer(FLUSH, FLUSH_AFTER_S))
        elif waited and not self._output.waiting:
            actions.append(SetTimer(FLUSH, None))
        return actions

    def intend(self, intent: Intent) -> list[Action]:
        """Feed the prompt, which may be empty, and close stdin."""
        if isinstance(intent, Cancel):
            # A program has no protocol for it: closing stdin is the politest there is.
            self._cancelled = True
            return self._feed("")
        return self._feed(intent.text) if isinstance(intent, Prompt) else []

    def _feed(self, text: str) -> list[Action]:
        if self._prompted:
            return []
        self._prompted = True
        return [*([Write(text.encode())] if text else []), CloseStdin()]

    def expire(self, timer: str) -> list[Action]:
        """The program is silent for a moment: show what it said so far."""
        return [_told(block) for block in self._output.flush()]

    def finish(self, ending: Ending) -> list[Action]:
        """The exit status decides; after a cancel, a death by signal confirms it."""
        actions: list[Action] = [_told(block) for block in self._output.flush()]
        if self._cancelled:
            return [*actions, TurnEnded("cancelled")]
        if ending.exit_code == 0 and ending.signal is None:
            return [*actions, TurnEnded("end_turn")]
        return [*actions, TurnEnded("error", exited("program", ending))]

    def snapshot(self) -> dict[str, Any]:
        """Everything this conversation remembers, as JSON values."""
        return {
            "output": self._output.snapshot(),
            "prompted": self._prompted,
            "cancelled": self._cancelled,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Become the conversation that ``snapshot`` was taken of."""
        self._output.restore(snapshot["output"])
        self._prompted = snapshot["prompted"]
        self._cancelled = snapshot["cancelled"]


def _told(block: Block) -> Event:
    text = block.data.decode("utf-8", "replace")
    members = {"message_id": MESSAGE_ID, "text": text}
    return Event(MESSAGE_CHUNK, members, Span(block.offset, len(block.data)))


@frozen
class CommandAgent:
    """The `Adapter` of a program named by the request's argv."""

    spec: AgentSpec

    def plan(self, request: AgentRequest) -> LaunchPlan:
        if not request.argv:
            raise ValueError("cannot plan a command: name the program and its arguments after `--`")
        return LaunchPlan(argv=request.argv)

    def converse(self, request: AgentRequest) -> Conversation:
        return CommandConversation()


COMMAND = CommandAgent(
    AgentSpec(
        name="command",
        title="Command (any program)",
        takes_model=False,
        takes_argv=True,
        asks_permission=False,
        briefed=False,
        exit_status_decides=True,
    )
)
