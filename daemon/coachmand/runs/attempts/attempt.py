"""One attempt: a keeper, the agent behind it and the dialogue with that agent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import trio
from attrs import evolve

from coachman_adapters.conversation import Conversation, Ending

from ...durable import FullError
from ...evidence import rawlogs
from ...evidence.rundir import RunDirectory
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...journal.log import Journal
from ..control import inbox
from ..facts.clock import Moment, boottime_s, epoch_ms, reset_ms
from ..keepers.link import KeeperLink
from ..keepers.segments import SegmentReader
from ..keepers.starting import KeeperError
from ..reading.view import View
from . import replay
from .dialogue import Dialogue, Input, Output

STDERR_TAIL_BYTES = 4096
MAX_EPILOGUE_BYTES = 16 * 1024 * 1024
# What a keeper answers, in the codes of docs/keeper-protocol.md: nobody is there to ask; nobody
# will read these bytes any more; there is nothing to signal, or the disk has to be mended first.
UNREACHABLE = frozenset({"gone", "timeout"})
DEAF = frozenset({"stdin_closed", "no_stdin"})
POINTLESS = frozenset({"no_agent", "ended"})


class Host(Protocol):
    """What an attempt needs of its run."""

    directory: RunDirectory
    journal: Journal
    view: View
    permission_s: float
    boot: str

    async def record(self, entries: Sequence[Entry]) -> None: ...
    def post(self, message: inbox.Message) -> None: ...
    def refused(self, error: OSError) -> None: ...


class Attempt:
    """Feeds the dialogue, journals what it says and carries out what it wants."""

    def __init__(self, host: Host, number: int, link: KeeperLink | None) -> None:
        self._host = host
        self.number = number
        self._link = link
        self.path = host.directory.attempt(number)
        self._reader = SegmentReader(self.path, "stdout")
        self.dialogue: Dialogue
        self.timers_due_s: dict[str, float] = {}
        self.held = False
        self._held_s = 0.0
        self._timers_on_hold: dict[str, float] = {}
        self._timers_s: dict[str, float] = {}
        self._checkpointed = 0
        self._catch_up_to = 0
        # Said by the dialogue and not yet acknowledged by the keeper, and its place in stdin.
        self._unheard = bytearray()
        self._unheard_at = 0

    def __repr__(self) -> str:
        return f"<Attempt {self.number} {self.dialogue!r} link={self._link!r}>"

    @property
    def behind(self) -> bool:
        """Whether stdout that was there when we attached is still unread: no input before it."""
        return self.dialogue.fed < self._catch_up_to

    def begin(self, conversation: Conversation) -> None:
        """A dialogue from its very start."""
        view = self._host.view
        self.dialogue = Dialogue(conversation, turns=view.turn_base, asked=view.asked_before)

    async def restore(
        self, conversation: Conversation, checkpoint: replay.Checkpoint | None
    ) -> None:
        """Rebuild the dialogue from logs and journal. Raises `ReplayDivergedError`."""
        view, status = self._host.view, self._sizes()
        self.dialogue = Dialogue(
            conversation,
            known_n=view.n,
            taken=status["stdin"],
            said=self._said,
            turns=view.turn_base,
            asked=view.asked_before,
        )
        if checkpoint is not None:
            self.dialogue.restore(checkpoint.dialogue)
        inputs = [Input.of_event(event) for event in view.inputs]
        found = await trio.to_thread.run_sync(
            lambda: replay.replay(
                self.dialogue,
                inputs,
                self._reader.read,
                self._prompt_of,
                self.ending,
                checkpoint.timers if checkpoint is not None else {},
            )
        )
        self._arm(found.timers)
        self._checkpointed = self.dialogue.fed
        self._catch_up_to = status["stdout"]
        for output in found.outputs:
            await self._journal(output)
            await self._say(output)

    async def feed(self) -> bool:
        """Take in some of the stdout that is there; False where there is no more."""
        read = lambda: self._reader.read(self.dialogue.fed, replay.CHUNK_BYTES)  # noqa: E731
        data = await trio.to_thread.run_sync(read)
        if not data:
            return False
        reach("output.read")
        output = self.dialogue.feed(data)
        await self._journal(output)
        reach("output.recorded")
        await self._carry_out(output)
        news = self.dialogue.fed - self._checkpointed
        ended = any(entry.type == v.TURN_ENDED for entry in output.entries)
        if news >= (replay.CHECKPOINT_TURN_BYTES if ended else replay.CHECKPOINT_EVERY_BYTES):
            await self.checkpoint()
        return True

    async def tell(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        companions: Iterable[Entry] = (),
        prompt: str = "",
        ending: Ending | None = None,
    ) -> None:
        """Give the dialogue an input: journaled, with its ``companions``, before a byte leaves."""
        output = self._apply(kind, payload or {}, companions, prompt, ending)
        await self._journal(output)
        reach("input.recorded")
        await self._carry_out(output)
        reach("input.told")

    async def tell_first(
        self, payload: Mapping[str, Any], companions: Iterable[Entry], prompt: str
    ) -> None:
        """Start the dialogue and give it its first prompt: two inputs, one way to the disk."""
        outputs = [
            self._apply("start", {}),
            self._apply("prompt", payload, companions, prompt),
        ]
        await self._journal(*outputs)
        for output in outputs:
            await self._carry_out(output)

    def _apply(
        self,
        kind: str,
        payload: Mapping[str, Any],
        companions: Iterable[Entry] = (),
        prompt: str = "",
        ending: Ending | None = None,
    ) -> Output:
        given = Input(kind, self.dialogue.fed, payload)
        output = self.dialogue.apply(given, prompt, ending)
        output.entries[:0] = [given.entry(), *companions]
        return output

    async def note(self, entries: Sequence[Entry]) -> None:
        """Journal lines of the daemon's own."""
        await self._host.record(entries)

    async def expire(self, name: str) -> None:
        """A timer of the conversation ran out."""
        self.timers_due_s.pop(name, None)
        self._timers_s.pop(name, None)
        await self.tell("timer", {"name": name})

    async def close_stdin(self) -> None:
        """Tell the agent that nothing more will come."""
        self._host.view.stdin_closed = True
        await self._with_link(lambda link: link.close_stdin())

    async def dismiss(self) -> None:
        """The logs are masked: the keeper need not keep the values for anybody."""
        if self._link is not None and self._link.mask:
            await self._with_link(lambda link: link.dismiss())

    async def hold(self) -> None:
        """Read the agent no more for now; its own timers stand still meanwhile."""
        self.held, self._held_s = True, boottime_s()
        self._timers_on_hold, self.timers_due_s = self.timers_due_s, {}
        await self._with_link(lambda link: link.hold())

    async def release(self) -> None:
        """Read on, and tell the agent what could not be told."""
        self.held, by_s = False, boottime_s() - self._held_s
        kept, self._timers_on_hold = self._timers_on_hold, {}
        self.timers_due_s |= {name: due_s + by_s for name, due_s in kept.items()}
        await self._with_link(lambda link: link.release())
        await self._hand_over()

    def look_again(self) -> None:
        """Whatever we were told or not: find out anew how it stands with the keeper."""
        self._host.post(inbox.KeeperGone())
        self._host.post(inbox.OutputGrew())

    async def signal(self, target: str, number: int) -> None:
        """Signal the agent, or SIGKILL its tree."""
        await self._with_link(lambda link: link.signal(target, number))

    def _prompt_of(self, given: Input) -> str:
        """The text that an input gave to the agent. Blocks."""
        return self._host.directory.read_prompt(given.prompt, given.payload.get("file"))

    def ending(self, given: Input) -> Ending:
        """What a finish tells the conversation. Blocks."""
        directory = self._host.directory
        stderr = rawlogs.tail(directory.segments(self.number, "stderr"), STDERR_TAIL_BYTES)
        epilogue = None
        if given.payload.get("epilogue"):
            with SegmentReader(directory.epilogue(self.number), "stdout") as reader:
                epilogue = reader.read(0, MAX_EPILOGUE_BYTES)
        return Ending(given.payload.get("exit_code"), given.payload.get("signal"), stderr, epilogue)

    async def checkpoint(self) -> None:
        """Save a place to come back to; what lies before need not be replayed again."""
        if self._unheard or self._host.journal.holding:
            return  # only a replay from before it could say it again
        host = self._host
        await host.journal.sync()
        host.view.inputs.clear()
        self._checkpointed = self.dialogue.fed
        saved = replay.Checkpoint(
            host.view.seq,
            host.journal.size,
            host.view.snapshot(),
            self.dialogue.snapshot(),
            dict(self._timers_s),
        )
        await self._write_checkpoint(saved, host.directory.checkpoint(self.number))
        reach("checkpoint.written")

    async def _write_checkpoint(self, saved: replay.Checkpoint, path: Path) -> None:
        with suppress(FullError):  # a longer replay is all that it costs
            await trio.to_thread.run_sync(saved.write, path)

    def close(self) -> None:
        """Let go of the logs and of the keeper; the agent, if it lives, goes on."""
        self._reader.close()
        if self._link is not None:
            self._link.close()

    async def rejoin(self, link: KeeperLink) -> None:
        """Go on over another connection to the same keeper: it hears what it missed."""
        self._link, self.held = link, False
        self._catch_up_to = max(self._catch_up_to, link.status["stdout"])
        await self._hand_over()
        if self._host.view.stdin_closed:
            await self.close_stdin()

    def last_output_s(self) -> float:
        """When the agent last wrote anything (CLOCK_BOOTTIME), as its logs tell. Blocks."""
        segments = self._host.directory.segments
        logs = [*segments(self.number, "stdout"), *segments(self.number, "stderr")]
        written_s = max((log.stat().st_mtime for log in logs), default=0.0)
        return boottime_s() - max(0.0, epoch_ms() / 1000 - written_s)

    def stdout_is_read(self, size: int) -> bool:
        """Whether the dialogue was fed all of a stdout of ``size`` bytes."""
        return self.dialogue.fed >= size

    def _sizes(self) -> dict[str, int]:
        if self._link is not None:
            status = self._link.status
            return {"stdout": status["stdout"], "stdin": status["stdin_taken"]}
        log = self.path / "stdin.log"
        stdin = log.stat().st_size if log.exists() else 0
        stdout = sum(p.stat().st_size for p in self._host.directory.segments(self.number, "stdout"))
        return {"stdout": stdout, "stdin": stdin}

    def _said(self, offset: int, size: int) -> bytes:
        with (self.path / "stdin.log").open("rb") as log:
            log.seek(offset)
            return log.read(size)

    async def _journal(self, *outputs: Output) -> None:
        late, turn, entries = self._host.view.turn_over, dict[str, int](), list[Entry]()
        for entry in (entry for output in outputs for entry in output.entries):
            entries.append(self._complete(entry, late, turn))
            # However the bytes were chunked: what follows a turn's end is late until the next.
            if entry.type == v.TURN_ENDED or entry.members.get("prompt_turn"):
                late = entry.type == v.TURN_ENDED
            if begun := entry.members.get("prompt_turn"):
                turn = {"turn": begun}
        await self._host.record(entries)

    def _complete(self, entry: Entry, late: bool, turn: Mapping[str, int]) -> Entry:
        """Add what only the daemon knows: the turn, deadlines of questions, lateness of updates."""
        members = {**turn, **entry.members}
        if entry.type == v.PERMISSION_REQUESTED:
            due = Moment.now(self._host.boot, self._host.permission_s)
            members["deadline"] = due.epoch_ms
            members["deadline_boottime_s"] = due.boottime_s
            members["deadline_boot"] = due.boot
        elif entry.type == v.TURN_ENDED and "resets" in members:
            members["resets_at"] = reset_ms(members.pop("resets"))
        elif entry.type == v.USAGE_UPDATED:
            members |= _in_all(members, self._host.view)
        elif late and entry.type in v.CONVERSATION_EVENTS:
            members["late"] = True
        reference = entry.reference and {"attempt": self.number, **entry.reference}
        return evolve(entry, members=members, reference=reference)

    async def _carry_out(self, output: Output) -> None:
        self._arm(output.timers)
        await self._say(output)

    async def _say(self, output: Output) -> None:
        if not self._unheard:
            self._unheard_at = output.write_at
        self._unheard += output.write
        await self._hand_over()
        if output.close_stdin:
            await self.close_stdin()

    async def _hand_over(self) -> None:
        if self._unheard:
            await self._with_link(self._write_unheard)

    async def _write_unheard(self, link: KeeperLink) -> None:
        try:
            await link.write(self._unheard_at, bytes(self._unheard))
        except KeeperError as error:
            if error.code not in DEAF:
                raise
        self._unheard.clear()

    def _arm(self, timers: Mapping[str, float | None]) -> None:
        for name, seconds in timers.items():
            self.timers_due_s.pop(name, None)
            self._timers_on_hold.pop(name, None)
            self._timers_s.pop(name, None)
            if seconds is not None:
                self._timers_s[name] = seconds
                self.timers_due_s[name] = boottime_s() + seconds

    async def _with_link(self, action: Callable[[KeeperLink], Any]) -> None:
        """A keeper that is gone is no error here: its end reaches the inbox by itself."""
        if self._link is None:
            return
        try:
            await action(self._link)
        except KeeperError as error:
            if error.code in UNREACHABLE:
                self._host.post(inbox.KeeperGone())
            elif error.code == "storage":
                self._host.refused(OSError(error.errno, str(error)))
            elif error.code not in POINTLESS:
                raise


def _in_all(told: Mapping[str, Any], view: View) -> dict[str, Any]:
    """What the run used: a conversation knows of its own attempt only."""
    before, now = view.usage_before or {}, told["usage"]
    usage = {name: now.get(name, 0) + before.get(name, 0) for name in {**before, **now}}
    cost = told["cost_usd"]
    return {"usage": usage, "cost_usd": None if cost is None else cost + (view.cost_before or 0.0)}
