"""What every conversation must bear, tried on recordings of the real agent.

A `Recording` is one transcript. Its functions feed it again in other ways: cut anew, with
lines between that are no protocol, cut short, said twice. `Held` holds every action
against the contract. `test_conformance.py` runs them on all recordings.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import evolve, frozen

import agents_replay
from agents_parts import PARTS
from agents_replay import FIXTURES, Step, feed, rechunk, request_of
from coachman_adapters.conversation import (
    Action,
    Ask,
    CloseStdin,
    Conversation,
    Event,
    SetTimer,
    TurnEnded,
    Usage,
    Withdraw,
)
from coachman_adapters.events import (
    CONVERSATION_EVENTS,
    NOISE,
    NOTICE,
    OPTION_KINDS,
    OWN_STOP_REASONS,
    STOP_REASONS,
    UNKNOWN,
)

COUNTERS = {"input", "cached_input", "output", "reasoning", "total"}
EVENT_BYTES = 256 * 1024
BIG = 8 * 1024 * 1024
BIG_ITEMS = 500_000
DEAD = {"finish": {"exit_code": None, "signal": 9}}

# None of these is anything an agent's protocol knows.
STRAY_LINES: dict[str, bytes] = {
    "text": b"Warning: something happened",
    "empty": b"",
    "half": b'{"type": "result", "half',
    "array": b"[1, 2, 3]",
    "scalar": b"42",
    "null": b"null",
    "string": b'"end_turn"',
    "not_utf8": b"\xff\xfe\x00\x80",
    "nul": b"\x00\x00\x00",
    "crlf": b"log line\r",
    "separators": "a\u2028b\u2029c\u0085d".encode(),
    "bom": b'\xef\xbb\xbf{"type": "result"}',
    "escapes": b"\x1b]0;title\x07\x1b[2J\x1b[31m",
    "deep": b"[" * 100_000,
    "method": b'{"jsonrpc": "2.0", "method": "x/unheard_of", "params": {"a": 1}}',
    "type": b'{"type": "unheard_of", "subtype": "x", "text": "a\xe2\x80\xa8b"}',
    "typeless": b'{"unheard": {"of": [true, null, 1e400]}}',
    "long_text": b"x" * BIG,
    "long_brackets": b'{"type": "unheard_of", "method": "x/big", "params": [' + b"[]," * BIG_ITEMS,
    "long_object": b'{"type": "unheard_of", "method": "x/big", "params": "' + b"y" * BIG + b'"}',
}


@frozen
class Recording:
    """One transcript of the agent that plays ``part``."""

    part: str
    name: str
    told: dict[str, Any]

    @classmethod
    def load(cls, part: str, name: str) -> "Recording":
        return cls(part, name, agents_replay.load(part, name))

    @property
    def steps(self) -> list[Step]:
        return self.told["steps"]  # type: ignore[no-any-return]

    def converse(self) -> Conversation:
        """A new conversation, asked for what was asked for then."""
        return PARTS[self.part].agent.converse(request_of(self.told))

    def replay(self, steps: Iterable[Step] | None = None) -> list[Action]:
        """All actions of ``steps``, or of the recording as it is."""
        return agents_replay.replay(self.converse(), self.steps if steps is None else steps)

    def by_lines(self) -> list[Step]:
        """The same steps with one line in each of stdout, wherever reads had ended."""
        found: list[Step] = []
        held = ""
        for step in self.steps:
            if "stdout" not in step:
                found += [{"stdout": held}] if held else []
                found.append(step)
                held = ""
                continue
            *whole, held = (held + step["stdout"]).split("\n")
            found += [{"stdout": line + "\n"} for line in whole]
        return found

    def rechunked(self, cut: Callable[[bytes], list[bytes]]) -> list[Action]:
        """All actions when stdout arrives in pieces of ``cut``."""
        conversation = self.converse()
        return [action for step in rechunk(self.steps, cut) for action in step(conversation)]


def recordings() -> list[tuple[str, str]]:
    """(part, name) of every transcript there is."""
    parts = sorted(path.name for path in FIXTURES.iterdir() if path.name in PARTS)
    return [(part, name) for part in parts for name in agents_replay.names(part)]


def pieces(sizes: list[int]) -> Callable[[bytes], list[bytes]]:
    """Cuts into pieces of these sizes, over and over."""

    def cut(held: bytes) -> list[bytes]:
        found, start = [], 0
        while start < len(held):
            size = sizes[len(found) % len(sizes)]
            found.append(held[start : start + size])
            start += size
        return found

    return cut


def timeless(actions: Iterable[Action]) -> list[Action]:
    """Without timers, which alone may depend on how bytes arrived."""
    return [action for action in actions if not isinstance(action, SetTimer)]


def meant(actions: Iterable[Action]) -> list[Action]:
    """What is left when strays are taken out, and the offsets that they shifted."""
    return [
        evolve(action, span=None) if isinstance(action, Event) else action
        for action in timeless(actions)
        if not (isinstance(action, Event) and action.type in (NOISE, UNKNOWN, NOTICE))
    ]


def ends(actions: Iterable[Action]) -> list[TurnEnded]:
    """The terminal records."""
    return [action for action in actions if isinstance(action, TurnEnded)]


def at_each_step(recording: Recording) -> Iterator[tuple[Conversation, Step, list[Action]]]:
    """Each step, line by line, with what it led to and the conversation right after it."""
    conversation = recording.converse()
    for step in recording.by_lines():
        yield conversation, step, feed(conversation, step)


class Held:
    """Holds actions against the contract, and counts what may come only so often."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.ended = self.closed = 0

    def hold(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._hold(action)

    def _hold(self, action: Action) -> None:
        match action:
            case Event(type=type_, members=members):
                assert type_ in CONVERSATION_EVENTS
                assert len(json.dumps(dict(members), allow_nan=False)) <= EVENT_BYTES
            case Ask(request=request, options=options):
                assert request not in self.asked
                self.asked.add(request)
                assert {option.kind for option in options} <= set(OPTION_KINDS)
                assert len({option.id for option in options}) == len(options)
            case Withdraw(request=request):
                assert request in self.asked
            case TurnEnded(stop_reason=reason, error=error):
                assert reason in STOP_REASONS
                assert (error is not None) == (reason in OWN_STOP_REASONS)
                assert action.resets is None or reason == "limited"
                assert not action.transient or reason == "error"
                self.ended += 1
            case CloseStdin():
                self.closed += 1
                assert self.closed == 1
            case Usage(counters=counters, cost_usd=cost):
                # Empty where the agent has told no more than what it cost.
                assert set(counters) in (COUNTERS, set())
                assert all(isinstance(n, int) and n >= 0 for n in counters.values())
                assert cost is None or cost >= 0
