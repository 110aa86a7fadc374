"""Bringing a dialogue back: its inputs merged with the raw stdout by offset."""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from attrs import define, field

from coachman_adapters.conversation import Ending

from ... import durable
from ...journal.damage import DamagedError
from ...journal.lines import Line, decode
from ..reading.view import View
from .dialogue import Dialogue, Input, Output, ReplayDivergedError

CHUNK_BYTES = 64 * 1024
CHECKPOINT_EVERY_BYTES = 4 * 1024 * 1024
# Raised whenever a conversation remembers something else, or a view counts it from the beginning:
# what was saved before is replayed.
CHECKPOINT_FORMAT = 5
# At a turn's end less is worth one; what is replayed in milliseconds is not.
CHECKPOINT_TURN_BYTES = 256 * 1024


@define
class Replayed:
    """What a replay brought up that nobody has yet, and the timers still armed."""

    outputs: list[Output] = field(factory=list)
    timers: dict[str, float | None] = field(factory=dict)

    def add(self, output: Output) -> None:
        """Take in what a step said."""
        self.timers.update(output.timers)
        self.outputs.append(output)


def replay(
    dialogue: Dialogue,
    inputs: Iterable[Input],
    read: Callable[[int, int], bytes],
    prompt: Callable[[Input], str],
    ending: Callable[[Input], Ending],
    timers: Mapping[str, float | None],
) -> Replayed:
    """Feed ``dialogue`` every input at its place in stdout. Blocks: run it in a thread.

    ``timers`` are those that were armed where it starts. Stdout behind the last input is left
    to the ordinary way, which comes to it before any new input is taken. Raises
    `ReplayDivergedError`.
    """
    found = Replayed(timers=dict(timers))
    for given in inputs:
        while dialogue.fed < given.at:
            data = read(dialogue.fed, min(CHUNK_BYTES, given.at - dialogue.fed))
            if not data:
                raise ReplayDivergedError(f"stdout ends at {dialogue.fed}, input at {given.at}")
            found.add(dialogue.feed(data))
        if given.kind == "timer":
            found.timers.pop(given.payload["name"], None)
        text = _text(prompt, given) if given.kind == "prompt" else ""
        end = ending(given) if given.kind == "finish" else None
        found.add(dialogue.apply(given, text, end))
    return found


def _text(prompt: Callable[[Input], str], given: Input) -> str:
    try:
        return prompt(given)
    except DamagedError as error:
        raise ReplayDivergedError(str(error)) from error


@define
class Checkpoint:
    """A place from which a run can be brought back without what came before."""

    seq: int
    journal_offset: int
    view: dict[str, Any]
    dialogue: dict[str, Any]
    timers: dict[str, float]

    def write(self, path: Path) -> None:
        """Save it. Blocks."""
        record = {
            "format": CHECKPOINT_FORMAT,
            "seq": self.seq,
            "journal_offset": self.journal_offset,
            "view": self.view,
            "dialogue": self.dialogue,
            "timers": self.timers,
        }
        data = msgspec.json.encode(record)
        durable.put(path, data + b"\n" + _digest(data))

    @classmethod
    def read(cls, path: Path, journal_size: int) -> "Checkpoint | None":
        """The checkpoint at ``path``; None where there is none that fits the journal. Blocks.

        One that is not what was written is none: all that it costs is a longer replay.
        """
        try:
            data, _, digest = path.read_bytes().rpartition(b"\n")
        except FileNotFoundError:
            return None
        if digest != _digest(data):
            return None
        record = msgspec.json.decode(data)
        if record["format"] != CHECKPOINT_FORMAT or record["journal_offset"] > journal_size:
            return None
        members: Mapping[str, Any] = {k: record[k] for k in cls.__annotations__}
        return cls(**members)


def _digest(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()


def latest_checkpoint(attempts: Path, journal_size: int) -> Checkpoint | None:
    """The checkpoint of the newest attempt, None where it has none. Blocks."""
    numbers = sorted((int(p.name) for p in attempts.iterdir() if p.name.isdigit()), reverse=True)
    for number in numbers[:1]:
        return Checkpoint.read(attempts / str(number) / "checkpoint.json", journal_size)
    return None


def _apply(view: View, line: Line) -> None:
    """Take one line in. Raises ValueError where it does not follow, or means nothing."""
    if line.seq != view.seq + 1:
        raise ValueError(f"event {line.seq} follows event {view.seq}")
    try:
        view.apply(decode(line.data))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"event {line.seq} means nothing: {error!r}") from error


def fold(
    path: Path,
    read: Callable[[int, int], tuple[list[Line], int]],
    checkpoint: Checkpoint | None = None,
) -> View:
    """A run's view from its checkpoint, if any, and the journal behind it. Blocks.

    ``read(after, offset)`` gives some lines of ``path`` and the offset behind them. Raises
    DamagedError where they make no sense.
    """
    view = View.restore(checkpoint.view) if checkpoint else View()
    offset = checkpoint.journal_offset if checkpoint else 0
    while True:
        lines, offset = read(view.seq, offset)
        if not lines:
            return view
        try:
            for line in lines:
                _apply(view, line)
        except ValueError as error:
            raise DamagedError(path, str(error)) from error
