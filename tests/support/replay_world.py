"""A model of one attempt under crashes: journal, keeper and agent outlive each daemon.

The world is driven by a tape of choices, so that Hypothesis can shrink what it finds. The
real `Dialogue`, `replay` and `View` run in it; files, sockets and processes are byte strings.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from attrs import define, field

from coachman_adapters.conversation import Conversation, Ending
from coachmand.journal import vocabulary as v
from coachmand.journal.lines import Entry, decode, encode
from coachmand.runs.attempts.dialogue import Dialogue, Input, Output
from coachmand.runs.attempts.replay import replay
from coachmand.runs.reading.view import View

PROMPTS = ("do it", "and again: é€𝄞", "then this", "at last", "or rather that", "no, this")
MAX_CRASHES = 8
ENVELOPE = ("type", "seq", "g", "ts", "run")


class CrashError(Exception):
    """The daemon is gone, at once."""


class Agent(Protocol):
    """What lives behind the keeper: it hears stdin and says stdout, whoever else is alive."""

    def hear(self, stdin: bytes) -> None: ...
    def say(self) -> bytes: ...


@define
class Tape:
    """Choices made in advance; past its end every choice is 0."""

    choices: bytes
    at: int = 0

    def pick(self, count: int) -> int:
        """A number below ``count``; up to 65,536 of them."""
        width = 1 if count <= 256 else 2
        value = int.from_bytes(self.choices[self.at : self.at + width], "big")
        self.at += width
        return value % count if count else 0

    @property
    def over(self) -> bool:
        return self.at >= len(self.choices)


@define
class World:
    """Everything that a daemon's death leaves alone.

    ``turns`` is how many prompts there are in all; ``prompts`` are their files, ``promised``
    those that whoever gave them was told of.
    """

    tape: Tape
    converse: Callable[[], Conversation]
    agent: Agent
    turns: int = 1
    prompts: dict[int, str] = field(factory=lambda: {1: PROMPTS[0]})
    promised: list[int] = field(factory=lambda: [1])
    journal: bytearray = field(factory=bytearray)
    synced: int = 0
    stdin: bytearray = field(factory=bytearray)
    stdout: bytearray = field(factory=bytearray)
    checkpoint: bytes | None = None
    crashes: int = 0

    def may_crash(self) -> bool:
        """Whether the daemon dies here; of its unsynced lines any number of bytes is left."""
        if self.crashes >= MAX_CRASHES or self.tape.pick(16) != 15:
            return False
        self.crashes += 1
        return True

    def crash(self) -> None:
        """Die, and lose part of what was not synced."""
        del self.journal[self.synced + self.tape.pick(len(self.journal) - self.synced + 1) :]
        raise CrashError

    def speak(self) -> None:
        """The agent goes on by itself."""
        self.stdout += self.agent.say()

    def events(self) -> list[dict[str, Any]]:
        """The journal's whole lines."""
        return [decode(line) for line in bytes(self.journal).split(b"\n")[:-1]]

    def live(self) -> None:
        """Daemon after daemon, until one comes to the end."""
        while True:
            try:
                Daemon(self).live()
            except CrashError:
                for _ in range(self.tape.pick(4)):
                    self.speak()
            else:
                return


class Daemon:
    """One daemon's life with the attempt: as `Attempt` does it, without files."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.timers: dict[str, float | None] = {}
        self._recover()

    def _recover(self) -> None:
        world = self.world
        del world.journal[world.journal.rfind(b"\n") + 1 :]
        world.synced = len(world.journal)
        saved = json.loads(world.checkpoint) if world.checkpoint else None
        self.view = View.restore(saved["view"]) if saved else View()
        for line in bytes(world.journal[saved["journal"] if saved else 0 :]).split(b"\n")[:-1]:
            self.view.apply(decode(line))
        taken, present = len(world.stdin), len(world.stdout)
        said = lambda offset, size: bytes(world.stdin[offset : offset + size])  # noqa: E731
        self.dialogue = Dialogue(world.converse(), known_n=self.view.n, taken=taken, said=said)
        if saved:
            self.dialogue.restore(saved["dialogue"])
        inputs = [Input.of_event(event) for event in self.view.inputs]
        timers = saved["timers"] if saved else {}
        prompt = lambda given: world.prompts[given.prompt]  # noqa: E731
        found = replay(self.dialogue, inputs, self._read, prompt, _ending, timers)
        self._arm(found.timers)
        for output in found.outputs:
            self._append(output.entries)
            self._say(output)
        while self.dialogue.fed < present:
            self._feed(1 + world.tape.pick(400))

    def live(self) -> None:
        """Do whatever the tape says, then what is still missing."""
        steps = (self._speak, self._feed_some, self._feed_some, self._tell, self._checkpoint)
        while not self.world.tape.over and not self.view.finished:
            steps[self.world.tape.pick(len(steps))]()
        while not self.view.finished:
            before = self._place()
            self._speak()
            self._feed(1 << 16)
            self._tell()
            if self._place() == before and self.timers:
                self._expire()
            elif self._place() == before:
                self.tell("finish", {"exit_code": 0, "signal": None, "epilogue": False})

    def _place(self) -> tuple[int, int, int]:
        return len(self.world.stdout), self.dialogue.fed, self.view.seq

    def _speak(self) -> None:
        self.world.speak()

    def _feed_some(self) -> None:
        self._feed(1 + self.world.tape.pick(3000))

    def _feed(self, size: int) -> None:
        data = self._read(self.dialogue.fed, size)
        if data:
            output = self.dialogue.feed(data)
            self._append(output.entries)
            self._carry_out(output)

    def _tell(self) -> None:
        """One of the inputs that are possible now."""
        view, possible = self.view, []
        if not view.told_start:
            possible.append(lambda: self.tell("start"))
        elif view.queue and not view.turn_runs:
            possible.append(self._begin)
        elif view.turn_runs and view.interrupted == view.turn and not view.cancel_told:
            possible.append(lambda: self.tell("cancel", {"of_turn": view.turn}))
        if view.pending:
            possible.append(self._answer)
        if self.timers and self.world.tape.pick(8) == 7:
            possible.append(self._expire)
        if view.turn_runs and view.interrupted < view.turn and self.world.tape.pick(12) == 11:
            possible.append(self._interrupt)
        if view.prompts < self.world.turns:
            possible.append(self._queue)
        if possible:
            possible[self.world.tape.pick(len(possible))]()

    def _begin(self) -> None:
        turn, number = self.view.turn + 1, self.view.queue[0].number
        started = Entry(v.TURN_STARTED, {"turn": turn})
        self.tell("prompt", {"prompt_turn": turn, "prompt": number}, [started])

    def _queue(self) -> None:
        number, queued = self._written(first=False)
        self._append([queued])
        self.world.promised.append(number)

    def _interrupt(self) -> None:
        """End the turn; now and then with a prompt that comes before all others."""
        view, entries, number = self.view, list[Entry](), None
        if view.prompts < self.world.turns and self.world.tape.pick(2):
            number, queued = self._written(first=True)
            entries.append(queued)
        if self.world.tape.pick(2):
            dropped = [{"prompt": queued.number, "why": "interrupt"} for queued in view.queue]
            entries += [Entry(v.PROMPT_DROPPED, members) for members in dropped]
        self._append([*entries, Entry(v.TURN_INTERRUPTED, {"turn": view.turn, "by": {}})])
        if number is not None:
            self.world.promised.append(number)

    def _written(self, *, first: bool) -> tuple[int, Entry]:
        number = self.view.prompts + 1
        self.world.prompts[number] = PROMPTS[number - 1]
        if self.world.may_crash():
            self.world.crash()
        return number, Entry(v.PROMPT_QUEUED, {"prompt": number, "title": "", "first": first})

    def _answer(self) -> None:
        pending = sorted(self.view.pending)
        asked = self.view.pending[pending[self.world.tape.pick(len(pending))]]
        options = [*(option["id"] for option in asked.options), None]
        decided = {
            "request": asked.request,
            "option": options[self.world.tape.pick(len(options))],
            "outcome": "selected",
        }
        self.tell("answer", decided, [Entry(v.PERMISSION_RESOLVED, {**decided, "kind": None})])

    def _expire(self) -> None:
        name = sorted(self.timers)[self.world.tape.pick(len(self.timers))]
        del self.timers[name]
        self.tell("timer", {"name": name})

    def tell(
        self, kind: str, payload: dict[str, Any] | None = None, companions: Iterable[Entry] = ()
    ) -> None:
        """An input: journaled before a byte of what follows from it leaves."""
        given = Input(kind, self.dialogue.fed, payload or {})
        prompt = self.world.prompts[given.prompt] if kind == "prompt" else ""
        output = self.dialogue.apply(given, prompt, _ending(given))
        self._append([given.entry(), *companions, *output.entries])
        self._carry_out(output)

    def _append(self, entries: list[Entry]) -> None:
        world, events = self.world, []
        for seq, entry in enumerate(entries, self.view.seq + 1):
            event = {"type": entry.type, "seq": seq, "ts": 1, "run": "r"}
            if entry.n is not None:
                event["n"] = entry.n
            events.append(event | dict(entry.members))
            world.journal += encode(events[-1], entry.reference) + b"\n"
        if entries and world.may_crash():
            world.crash()
        if any(v.decides(entry.type, entry.members) for entry in entries):
            world.synced = len(world.journal)
        for event in events:
            self.view.apply(event)

    def _carry_out(self, output: Output) -> None:
        self._arm(output.timers)
        self._say(output)

    def _say(self, output: Output) -> None:
        if output.write:
            self._write(output.write_at, bytes(output.write))
        if output.close_stdin:
            self.view.stdin_closed = True

    def _write(self, offset: int, data: bytes) -> None:
        """The keeper ignores what it took already and refuses a gap."""
        world, taken = self.world, len(self.world.stdin)
        assert offset <= taken, f"a gap: {offset} after {taken}"
        news = data[taken - offset :]
        dies = world.may_crash()
        news = news[: world.tape.pick(len(news) + 1)] if dies else news
        world.stdin += news
        world.agent.hear(news)
        if dies:
            world.crash()

    def _checkpoint(self) -> None:
        world = self.world
        world.synced = len(world.journal)
        self.view.inputs.clear()
        saved = {
            "journal": len(world.journal),
            "view": self.view.snapshot(),
            "dialogue": self.dialogue.snapshot(),
            "timers": dict.fromkeys(self.timers, 1.0),
        }
        if world.may_crash():
            world.crash()
        world.checkpoint = json.dumps(saved).encode()

    def _arm(self, timers: dict[str, float | None]) -> None:
        for name, seconds in timers.items():
            self.timers.pop(name, None)
            if seconds is not None:
                self.timers[name] = seconds

    def _read(self, offset: int, size: int) -> bytes:
        return bytes(self.world.stdout[offset : offset + size])


def _ending(given: Input) -> Ending:
    return Ending(given.payload.get("exit_code"), given.payload.get("signal"), b"some stderr")


def uninterrupted(world: World) -> tuple[list[dict[str, Any]], bytes]:
    """The numbered lines and the stdin of a run with the same inputs and no crash."""
    dialogue, entries, stdin = Dialogue(world.converse()), [], bytearray()

    def take(output: Output) -> None:
        entries.extend(output.entries)
        stdin.extend(output.write)

    for event in world.events():
        if event["type"] == v.INPUT:
            given = Input.of_event(event)
            take(dialogue.feed(bytes(world.stdout[dialogue.fed : given.at])))
            prompt = world.prompts[given.prompt] if given.kind == "prompt" else ""
            take(dialogue.apply(given, prompt, _ending(given)))
    lines = []
    for entry in entries:
        line = encode({"type": entry.type, "n": entry.n, **entry.members}, entry.reference)
        lines.append(decode(line))
    return lines, bytes(stdin)


def numbered(world: World) -> list[dict[str, Any]]:
    """The journal's lines that a conversation emitted, without their envelope."""
    return [
        {"type": event["type"]} | {k: x for k, x in event.items() if k not in ENVELOPE}
        for event in world.events()
        if "n" in event
    ]
