"""Feeds the events of runs to programs of the user's, each from where it was left by whoever died.

How far a program came stands in a file of the state directory for as long as it is owed anything:
made before its run is, gone once it had the run's end. It reads behind the journal with a cursor,
so that it delays nobody, and nothing is kept for it.
"""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import structlog
import trio
from attrs import define, field, frozen

from ... import durable
from ...evidence.ids import is_run_id
from ...evidence.rundir import RunDirectory
from ...evidence.state import StateDirectory
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.cursors import Cursor, FileCursor
from ...journal.damage import DamagedError
from ...ownership import FencedError
from ...permissions import hook
from ...permissions.feeding import Fed, Patience
from ...permissions.programs import Programs, UntrustedError
from ..control import inbox
from ..control.resolvers import trees_of
from ..facts.record import Record
from ..tidying.findings import Finding

if TYPE_CHECKING:
    from ..run import Run

log = structlog.get_logger("feed")
FORMAT = 1
# Overwritten in place, so that a full disk takes it as well.
PLACE_BYTES = 160
# How soon a program that failed is run again, each time once.
AGAIN_S = (1.0, 10.0, 60.0)
# A run that fell is taken up again with another journal.
LOOK_AGAIN_S = 0.2
MAX_FINDINGS = 100
_END = f'{{"type":"{v.RUN_ENDED}"'.encode()


@frozen
class Place:
    """Where a program stands: the last line it was given whole, the last it certainly read.

    What it was given and has not read outlives a daemon, in its pipe, but not the machine's
    ``boot``.
    """

    given: int = 0
    taken: int = 0
    boot: str = ""

    def after(self, boot: str) -> int:
        """The line behind which to go on."""
        return self.given if self.boot == boot else self.taken

    def encode(self) -> bytes:
        members = {"format": FORMAT, "given": self.given, "taken": self.taken, "boot": self.boot}
        return json.dumps(members).encode().ljust(PLACE_BYTES - 1) + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> "Place":
        """The place of a file; the first one where it makes no sense: rather twice than never."""
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(data)
            return cls(int(found["given"]), int(found["taken"]), str(found["boot"]))
        return cls()


def owe(state: StateDirectory, run: str) -> None:
    """Put on record that a run's events are to be fed. Blocks. Raises DiskError."""
    durable.replace(state.feeds / run, Place().encode())
    reach("feed.owed")


class House(Protocol):
    """What a feed needs to know of runs."""

    runs: "dict[str, Run]"
    changes: int

    async def record_of(self, run: str) -> Record: ...
    async def wait_for_change(self, seen: int) -> None: ...


@define
class Feeds:
    """One feed for each run that has a program, living or ended, until that had everything."""

    state: StateDirectory
    programs: Programs
    environment: Mapping[str, str]
    boot: str
    write: Callable[..., Awaitable[Any]]
    patience: Patience = field(factory=Patience)
    again_s: tuple[float, ...] = AGAIN_S
    _new: list[str] = field(factory=list)
    _wake: trio.Event = field(factory=trio.Event)
    _findings: dict[str, Finding] = field(factory=dict)
    _fed: set[str] = field(factory=set)
    _through: trio.Event = field(factory=trio.Event)

    def add(self, run: str) -> None:
        """A run begins whose events are to be fed."""
        self._new.append(run)
        self._fed.add(run)
        self._wake.set()

    def findings(self) -> list[Finding]:
        """The programs that do not take what they should, or are not run any more."""
        return list(self._findings.values())

    async def settle(self, limit_s: float) -> None:
        """Wait until the programs have had all, at most so long; the next daemon gives the rest."""
        with trio.move_on_after(limit_s):
            while self._fed:
                await self._through.wait()
                self._through = trio.Event()

    async def keep(self, house: House) -> None:
        """Feed, for as long as the daemon runs."""
        names = await trio.to_thread.run_sync(os.listdir, self.state.feeds)
        for run in filter(is_run_id, names):
            self.add(run)
        async with trio.open_nursery() as nursery:
            while True:
                new, self._new, self._wake = self._new, [], trio.Event()
                for run in dict.fromkeys(new):
                    nursery.start_soon(self._feed, house, run)
                await self._wake.wait()

    async def _feed(self, house: House, run: str) -> None:
        try:
            try:
                record = await house.record_of(run)
            except (DamagedError, OSError) as error:
                log.warning("feed_without_run", run=run, error=str(error))
            else:
                await Feed(self, house, record).keep()
            await self.write(durable.remove, self.state.feeds / run)
        except FencedError:
            return  # a newer daemon feeds it
        except Exception as error:
            log.error("feed_failed", run=run, exc_info=error)
        finally:
            self._fed.discard(run)
            self._through.set()

    def note(self, record: Record, finding: Finding | None) -> None:
        """What is to be told of a run's program just now."""
        self._findings.pop(record.run, None)
        if finding is not None:
            self._findings[record.run] = finding
            if len(self._findings) > MAX_FINDINGS:
                del self._findings[next(iter(self._findings))]


class Feed:
    """One run's events on their way to its program."""

    def __init__(self, feeds: Feeds, house: House, record: Record) -> None:
        assert record.on_event is not None
        self._feeds = feeds
        self._house = house
        self._record = record
        self._program = record.on_event
        self._journal = RunDirectory(feeds.state.run(record.run)).journal
        self._file = feeds.state.feeds / record.run
        self._fd = -1
        self._fault: Exception | None = None

    def __repr__(self) -> str:
        return f"<Feed of {self._record.handle} to {self._program.path}>"

    async def keep(self) -> None:
        """Feed until the program had the run's end, or is given up."""
        place = await trio.to_thread.run_sync(self._open)
        try:
            after, over = place.after(self._feeds.boot), False
            for pause_s in (*self._feeds.again_s, None):
                after, reason, over = await self._once(after)
                if reason is None or over or pause_s is None:
                    break
                self._tell(reason, after, "again")
                await trio.sleep(pause_s)
            if reason is None:
                self._feeds.note(self._record, None)
            else:
                self._tell(reason, after, "given_up")
        finally:
            os.close(self._fd)

    async def _once(self, after: int) -> tuple[int, str | None, bool]:
        """Run it once: how far it came, why it failed, and whether that is the end of it."""
        try:
            program = await trio.to_thread.run_sync(self._pin)
            fed = await Fed.start(
                program, self._environment(after), after, self._feeds.patience, self._slow
            )
        except (OSError, UntrustedError) as error:
            return after, str(error), False
        self._feeds.note(self._record, None)
        reason = await fed.serve(self._all)
        if self._fault is not None:
            raise self._fault
        # One that leaves by its own will has seen enough.
        if not fed.has_all and reason == "it ended with status 0":
            return fed.taken, f"{reason}, before the run did", True
        return fed.taken, reason, fed.has_all

    def _pin(self) -> Any:
        trees = trees_of(self._record, self._feeds.state)
        return self._feeds.programs.pin(self._program.path, trees, self._program.sha256)

    def _environment(self, after: int) -> dict[str, str]:
        record = self._record
        return {
            **hook.lent(self._feeds.environment),
            "COACHMAN_RUN": record.run,
            "COACHMAN_TASK": record.task,
            "COACHMAN_AFTER_SEQ": str(after),
        }

    # --- the events ---

    async def _all(self, fed: Fed) -> None:
        """Give it what comes, to the run's end."""
        try:
            while not await self._some(fed):
                # Its journal was closed; it may be taken up again with another.
                if self._record.run not in self._house.runs:
                    return
                await trio.sleep(LOOK_AGAIN_S)
        except DamagedError as error:
            log.error("journal_damaged", run=self._record.run, error=str(error))
        except Exception as error:  # told once the program is through
            self._fault = error

    async def _some(self, fed: Fed) -> bool:
        """Give it what a journal has; whether that was the run's end."""
        living = self._house.runs.get(self._record.run)
        after = fed.given
        cursor = Cursor(living.journal, after) if living else FileCursor(self._journal, after)
        while lines := await cursor.next():
            for line in lines:
                if line.data.startswith(_END):
                    await self._until_result()
                await fed.give(line.seq, line.data)
                if line.data.startswith(_END):
                    await self._record_place(fed)
                    return True
            await self._record_place(fed)
        return False

    async def _until_result(self) -> None:
        """Who hears of a run's end may ask for its result at once."""
        while self._record.run in self._house.runs:
            await self._house.wait_for_change(self._house.changes)

    async def _record_place(self, fed: Fed) -> None:
        reach("feed.given")
        place = Place(fed.given, fed.taken, self._feeds.boot)
        await self._feeds.write(durable.overwrite, self._fd, place.encode(), 0)
        reach("feed.recorded")

    def _open(self) -> Place:
        self._fd = os.open(self._file, os.O_RDWR | os.O_CLOEXEC)
        return Place.decode(os.pread(self._fd, PLACE_BYTES, 0))

    # --- what it does wrong ---

    def _slow(self, is_slow: bool) -> None:
        if is_slow:
            self._tell(f"it read nothing for {self._feeds.patience.told_s:g} s", None, "waits")
        else:
            self._feeds.note(self._record, None)

    def _tell(self, reason: str, after: int | None, then: str) -> None:
        record, path = self._record, self._program.path
        log.warning("feed_failed", run=record.run, program=path, reason=reason, then=then)
        remedy = {
            "again": "it is run again soon",
            "waits": "look into it; the run goes on",
            "given_up": f"it gets no more; what it lacks: coachman tail {record.handle} --json",
        }[then]
        why = f"the program that is fed the events of run {record.handle}: {reason}"
        self._feeds.note(record, Finding("on_event", path, why, remedy))
        living = self._house.runs.get(record.run)
        if living is not None:
            living.post(inbox.FeedFailed(path, reason[:1000], after, then))
