"""The hostile agent and each conversation, face to face: no process, no file, any chunking."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
from kit import Held, ends, pieces, timeless

from agents_replay import events_of
from coachman_adapters import ADAPTERS
from coachman_adapters.acp.permissions import MAX_OPEN
from coachman_adapters.asks import CROWDED
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Ask,
    Ending,
    Prompt,
    SessionKnown,
    Write,
)
from coachman_adapters.events import NOTICE

PROGRAM = Path(__file__).parents[1] / "agents" / "hostile.py"
# Adapter, permissions, and whom the program takes itself for.
WIRES = {
    "demo": ("demo", "ask", "Acp"),
    "opencode": ("opencode", "ask", "Acp"),
    "claude": ("claude", "ask", "Claude"),
    "codex exec": ("codex", "allow", "Exec"),
    "codex app-server": ("codex", "ask", "Server"),
    "pi": ("pi", "ask", "Pi"),
}
# codex exec has no questions.
ASKING = pytest.mark.parametrize("wire", [name for name in WIRES if name != "codex exec"])
# How the turn ends once the agent is gone as well.
MODES = {
    "bytes_of_all_kinds": "end_turn",
    "long_line 2": "end_turn",
    "flood 1 text": "end_turn",
    "flood 1 frames": "end_turn",
    "nothing": "end_turn",
    "exits": "error",
    "unauthorized": "error",
    "asks 3": "end_turn",
}
PLAYED = [
    (wire, mode, reason)
    for wire in WIRES
    for mode, reason in MODES.items()
    if (wire, mode) != ("codex exec", "asks 3")
] + [("demo", "dense_line 2", "end_turn")]
GONE = Ending(0, None)


def program() -> ModuleType:
    """The hostile agent as a module of its own."""
    spec = importlib.util.spec_from_file_location("hostile", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Duet:
    """A conversation and the agent that it is with, in one process; it is the agent's stdin.

    ``answers``: each question is answered with its first option as soon as it is asked.
    """

    answers = True

    def __init__(self, wire: str, size: int) -> None:
        adapter, permissions, played = WIRES[wire]
        request = AgentRequest(cwd="/w", home="/h", permissions=permissions)
        self.conversation = ADAPTERS[adapter].converse(request)
        self.actions: list[Action] = []
        self.buffer = self
        self._cut = pieces([size])
        self._agent = program()
        self._agent.write = self._say  # type: ignore[attr-defined]
        self.played: Any = getattr(self._agent, played)()
        self._told = b""
        self._do(self.conversation.start())

    def play(self, mode: str) -> "Duet":
        """Prompt it, and let it do."""
        with mock.patch.object(sys, "stdin", self):
            name, *arguments = self.prompt(mode).split()
            self._agent.MODES[name](self.played, *arguments)
        return self

    def prompt(self, text: str) -> str:
        """What it hears of a prompt."""
        self._do(self.conversation.intend(Prompt(1, text)))
        return str(self.played.prompt())

    def end(self) -> list[Action]:
        """The process is gone; everything that was ever said."""
        self._do(self.conversation.finish(GONE))
        return self.actions

    def _say(self, data: bytes) -> None:
        for piece in self._cut(data):
            self._do(self.conversation.receive(piece))

    def _do(self, actions: list[Action]) -> None:
        self.actions += actions
        for action in actions:
            if isinstance(action, Write):
                self._told += action.data
            if isinstance(action, Ask) and self.answers:
                option = action.options[0].id
                self._do(self.conversation.intend(Answer(action.request, option)))

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        line, newline, self._told = self._told.partition(b"\n")
        if not newline:
            raise StopIteration
        return line

    def read(self) -> bytes:
        """All that it was told."""
        told, self._told = self._told, b""
        return told


@pytest.mark.parametrize(("wire", "mode", "reason"), PLAYED)
def test_whatever_it_does_its_turn_ends_once_and_truthfully(
    wire: str, mode: str, reason: str
) -> None:
    """In large pieces and in small ones the actions are the same, lawful, and end the one turn."""
    whole, cut = (Duet(wire, size).play(mode).end() for size in (1024 * 1024, 1000))
    held = Held()
    held.hold(whole)

    assert [end.stop_reason for end in ends(whole)] == [reason]
    assert timeless(cut) == timeless(whole)


@ASKING
def test_more_questions_than_anybody_reads_are_refused(wire: str) -> None:
    """So many wait, each further one is answered at once, and that is told once."""
    duet = Duet(wire, 65536)
    duet.answers = False
    with mock.patch.object(sys, "stdin", duet):
        duet.prompt("nothing")
        for number in range(MAX_OPEN + 10):
            duet.played.ask(number, f"command {number}")
        asked = [action for action in duet.actions if isinstance(action, Ask)]
        answered = sum(1 for _ in duet)
        duet.conversation.intend(Answer(asked[0].request, asked[0].options[0].id))
        for number in range(1000, 1003):
            duet.played.ask(number, "one more")
    again = [action for action in duet.actions if isinstance(action, Ask)]
    told = [event for event in events_of(duet.actions) if event.type == NOTICE]

    assert (len(asked), len(again)) == (MAX_OPEN, MAX_OPEN + 1)
    assert answered == 10
    assert [event.members for event in told] == [CROWDED, CROWDED]


@pytest.mark.parametrize("wire", ["claude", "codex exec"])
def test_another_session_is_told(wire: str) -> None:
    """An agent that names another session in the middle is heard, so that its run can fail."""
    actions = Duet(wire, 65536).play("other_session").end()
    known = [action.session for action in actions if isinstance(action, SessionKnown)]

    assert len(set(known)) == 2


@pytest.mark.parametrize("wire", WIRES)
def test_tools_that_are_never_ended_are_not_remembered_for_ever(wire: str) -> None:
    """What a conversation keeps does not grow with the number of calls that an agent makes up."""
    sizes = []
    for calls in (600, 3000):
        duet = Duet(wire, 65536)
        with mock.patch.object(sys, "stdin", duet):
            duet.prompt("nothing")
            for number in range(calls):
                duet.played.tool("x" * 100, call=f"call-{number}")
        sizes.append(len(json.dumps(duet.conversation.snapshot())))

    assert sizes[0] > 10_000
    assert sizes[1] <= sizes[0] * 1.1
