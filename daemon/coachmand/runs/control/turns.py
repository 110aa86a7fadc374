"""The turns of one run: what waits, what interrupts, and what follows when one is over.

What somebody asks is written down, and then decided by looking at what is written
(`Turns.advance`): a daemon that finds the run again comes to the same.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog
import trio

from ... import durable
from ...evidence.rundir import encode_prompt, seal_of
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.damage import DamagedError
from ...journal.lines import Entry
from ...rpc.errors import RpcError
from ..ending import ladder
from ..ending.product import Product, record_tree
from ..facts.clock import Moment, boottime_s, stamp
from ..facts.members import Queued
from ..reading.view import View
from . import inbox

if TYPE_CHECKING:
    from ..run import Run

log = structlog.get_logger("run")
MAX_QUEUED = 64
MAX_TITLE_CHARACTERS = 80
BETWEEN = ("active", "parked")


class Turns:
    """Carries prompts, interrupts and the close out, each when the run has come to it."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self.interrupt_due_s: float | None = None
        self._waits_for_place = False
        self._recording = 0
        self._recorded = trio.Event()

    def __repr__(self) -> str:
        return f"<Turns {self._run.view.turn}, {len(self._run.view.queue)} queued>"

    @property
    def parked_due_s(self) -> float | None:
        """When a parked run is closed, where nothing else is to come."""
        until, view = self._run.view.parked_until, self._run.view
        if until is None or view.queue or view.closing:
            return None
        return Moment(**until).due_boottime_s(self._run.boot)

    # --- what is asked ---

    async def prompt(self, asked: inbox.PromptAsked) -> None:
        """Queue a prompt: on disk and in the journal before anybody is told."""
        view = self._run.view
        if asked.key is not None and asked.key in view.prompt_keys:
            asked.reply.give(self._told_before(view.prompt_keys[asked.key]))
            return
        self._check(view, "prompt")
        self._run.services.storage.check("prompt")
        self._check_takes_prompts("prompt")
        ahead, turn = len(view.queue) + view.turn_runs, view.turn + len(view.queue) + 1
        self._check_queue("prompt")
        queued = await self.write(asked.prompt)
        reach("prompt.written")
        await self._run.record([queued_entry(queued, asked.by, key=asked.key)])
        reach("prompt.recorded")
        waits = "turn" if ahead else "place" if self._needs_place() else None
        told = {"prompt": queued.number, "turn": turn, "ahead": ahead, "waits_for": waits}
        asked.reply.give({**told, "new": True})

    def _told_before(self, number: int) -> dict[str, Any]:
        """Where a prompt is that was given once already: in its turn, behind it, or before it."""
        view = self._run.view
        places = [queued.number for queued in view.queue]
        ahead = places.index(number) + view.turn_runs if number in places else 0
        turn = view.turn + places.index(number) + 1 if number in places else None
        waits = "turn" if ahead else None
        return {"prompt": number, "turn": turn, "ahead": ahead, "waits_for": waits, "new": False}

    def _needs_place(self) -> bool:
        admission = self._run.services.admission
        return self._run.view.state == "parked" and admission.is_full

    async def interrupt(self, asked: inbox.InterruptAsked) -> None:
        """Write down that the turn is to end, what waits no more, and what comes first."""
        run, view = self._run, self._run.view
        if asked.key is not None and asked.key in view.prompt_keys:
            told = {"turn": None, "already": True, "prompt": view.prompt_keys[asked.key]}
            asked.reply.give({**told, "dropped": []})
            return
        self._check(view, "interrupt")
        self._check_turn(asked)
        # What is to be tried again was told to end by nobody yet.
        keeps_queue = asked.keep_queue or view.again is not None
        entries, number = list[Entry](), None
        if asked.prompt is not None:
            self._check_takes_prompts("interrupt", "with a prompt ")
            if keeps_queue:
                self._check_queue("interrupt")
            queued = await self.write(asked.prompt)
            number = queued.number
            entries.append(queued_entry(queued, asked.by, first=True, key=asked.key))
        dropped = [] if keeps_queue else list(view.queue)
        entries += [_dropped(queued, "interrupt") for queued in dropped]
        already = not view.turn_runs or view.interrupted == view.turn
        if not already:
            entries.append(Entry(v.TURN_INTERRUPTED, {"turn": view.turn, "by": asked.by}))
        turn = view.turn if view.turn_runs else None
        await run.record(entries)
        reach("interrupt.recorded")
        shown = [{"prompt": queued.number, "title": queued.title} for queued in dropped]
        asked.reply.give({"turn": turn, "already": already, "prompt": number, "dropped": shown})

    async def close(self, asked: inbox.CloseAsked) -> None:
        """Write down that the run is to end once it has nothing more to do."""
        run, view = self._run, self._run.view
        already = not run.fixed.keep or view.closing or view.state in ("stopping", "ended")
        if not already:
            await run.record([Entry(v.RUN_CLOSING, {"by": asked.by})])
        asked.reply.give({"already": already})

    @property
    def _name(self) -> str:
        return self._run.fixed.handle

    def _check(self, view: View, verb: str) -> None:
        run = self._run
        ends = run.end.exit is not None or run.end.failure is not None or view.stdin_closed
        if (ends and view.again is None) or view.state in ("stopping", "ended"):
            raise over(self._name, verb, "stopping")

    def _check_takes_prompts(self, verb: str, how: str = "") -> None:
        name = self._name
        if not self._run.fixed.keep:
            raise RpcError(
                "Conflict",
                f"cannot {verb} {name} {how}".rstrip() + ": it takes one prompt only",
                hint="only runs started with keep take more; this one can be resumed at its end",
                detail={"state": self._run.view.state, "keep": False},
                next=[["coachman", "wait", name]],
            )
        if self._run.view.closing:
            raise RpcError(
                "Conflict",
                f"cannot {verb} {name} {how}".rstrip() + ": it is being closed",
                hint="resume it once it has ended",
                detail={"state": self._run.view.state, "closing": True},
                next=[["coachman", "wait", name]],
            )

    def _check_queue(self, verb: str) -> None:
        if len(self._run.view.queue) >= MAX_QUEUED:
            text = f"cannot {verb} {self._name}: {MAX_QUEUED} prompts wait already"
            raise RpcError("Busy", text, retryable=True, detail={"limit": MAX_QUEUED})

    def _check_turn(self, asked: inbox.InterruptAsked) -> None:
        """Refuse what is about another turn than the one that runs, or about none at all."""
        view = self._run.view
        if asked.turn is not None and not (view.turn_runs and view.turn == asked.turn):
            text = f"cannot interrupt turn {asked.turn} of {self._name}: it is not running"
            raise RpcError("Conflict", text, detail={"state": view.state, "turn": view.turn})
        if not view.turn and asked.prompt is None:
            raise RpcError(
                "Conflict",
                f"cannot interrupt {self._name}: its first turn has not begun",
                hint="cancel it, or give the prompt that it is to begin with instead",
                detail={"state": view.state},
                next=[["coachman", "cancel", self._name]],
            )

    async def write(self, prompt: str) -> Queued:
        """Put a prompt on the disk, under the next number."""
        run = self._run
        number = run.view.prompts + 1
        try:
            await trio.to_thread.run_sync(run.directory.write_prompt, number, prompt)
        except durable.FullError:
            run.services.storage.fill("a prompt")
            run.services.storage.check("prompt")
            raise
        title = prompt.strip().split("\n", 1)[0][:MAX_TITLE_CHARACTERS]
        file = seal_of(encode_prompt(prompt))
        return Queued(number, run.journal.redactor.mask_text(title), file)

    # --- what follows ---

    async def advance(self) -> None:
        """Do whatever is next, until that has to be waited for."""
        view = self._run.view
        while view.state in ("active", "waiting", "parked") and not view.goes_on:
            if not await self._step():
                return

    async def _step(self) -> bool:
        """One thing; whether there may be another to do at once."""
        view, keep = self._run.view, self._run.fixed.keep
        if view.turn_runs:
            return await self._carry_interrupt_out()
        self.interrupt_due_s = None
        begun = view.turn > view.turn_base
        if not keep or not begun or view.stdin_closed or self._run.end.exit is not None:
            return False
        if view.turn_recorded < view.turn:
            self.record_tree(view.turn)
        elif view.queue:
            return await self._next_turn()
        elif view.closing:
            await self._run.stop("closed")
        elif view.state == "active":
            await self._park()
        return False

    async def _carry_interrupt_out(self) -> bool:
        view = self._run.view
        if view.interrupted != view.turn or self.interrupt_due_s is not None:
            return False
        self.interrupt_due_s = boottime_s() + ladder.CANCEL_GRACE_S
        if not view.cancel_told:
            await self._run.living_attempt().tell("cancel", {"of_turn": view.turn})
        return True

    async def unconfirmed(self) -> None:
        """The agent did not end its turn when it was told to: the run is ended instead."""
        self.interrupt_due_s = None
        by = self._run.view.interrupted_by
        await self._run.record([Entry(v.DEADLINE_EXPIRED, {"which": "interrupt"})])
        await self._run.stop("interrupt_unconfirmed", by)

    async def _next_turn(self) -> bool:
        run, view = self._run, self._run.view
        if view.state == "parked":
            if not self._waits_for_place:
                self._waits_for_place = True
                run.queue_for_place(since_s=time.time())
            return False
        await self.begin()
        return True

    async def admitted(self) -> None:
        """There is a place for a parked run; what it was wanted for may be gone by now."""
        run, self._waits_for_place = self._run, False
        if run.view.state == "parked" and run.view.queue:
            await run.enter("active", "prompt")
            reach("run.unparked")
        elif run.view.state == "parked":
            run.services.admission.leave(run.fixed.run)

    async def begin(self) -> None:
        """Give the agent the first prompt that waits."""
        run, view = self._run, self._run.view
        queued = view.queue[0]
        try:
            read = run.directory.read_prompt
            text = await trio.to_thread.run_sync(read, queued.number, queued.file)
        except DamagedError as error:
            await self._damaged(queued, error)
            return
        turn = view.turn + 1
        payload = {"prompt_turn": turn, "prompt": queued.number, **_sealed(queued)}
        companions = [started(run.boot, turn, queued)]
        if view.told_start:
            await run.living_attempt().tell("prompt", payload, companions=companions, prompt=text)
        else:
            await run.living_attempt().tell_first(payload, companions, text)

    async def _damaged(self, queued: Queued, error: DamagedError) -> None:
        """What was asked is not known any more: nothing else is given to the agent in its place."""
        log.error("prompt_damaged", run=self._run.fixed.run, error=str(error))
        if self._run.view.told_start:
            await self._run.record([_dropped(queued, "damaged")])
        else:
            await self._run.stop("prompt_damaged", error=f"cannot give the prompt: {error}")

    async def _park(self) -> None:
        run = self._run
        until = Moment.now(run.boot, run.fixed.parked_s)
        members = {"boot": until.boot, "boottime_s": until.boottime_s, "epoch_ms": until.epoch_ms}
        await run.enter("parked", "turn_ended", until=members)
        reach("run.parked")
        run.services.admission.leave(run.fixed.run)

    async def parked_too_long(self) -> None:
        """Nobody prompted it in time: it is closed."""
        by = {"resolver": "deadline"}
        expired = Entry(v.DEADLINE_EXPIRED, {"which": "parked"})
        await self._run.record([expired, Entry(v.RUN_CLOSING, {"by": by})])

    # --- the tree at a turn's end ---

    def record_tree(self, turn: int) -> None:
        """Make the tree as it is a commit; a line tells once it is."""
        if self._recording != turn:
            self._recording, self._recorded = turn, trio.Event()
            self._run.spawn(self._record, turn)

    async def _record(self, turn: int) -> None:
        reach("turn.recording")
        product = await record_tree(self._run)
        reach("turn.recorded")
        self._recorded.set()
        self._run.post(inbox.TurnRecorded(turn, product))

    async def recorded(self, told: inbox.TurnRecorded) -> None:
        """The tree is a commit: the next turn may change it."""
        product: Product = told.product
        members = {"turn": told.turn, "changes": dict(product.totals)}
        commits = {"from": product.start, "to": product.commit}
        warned = {"warnings": list(product.warnings)} if product.warnings else {}
        tree = {"tree": product.tree} if product.tree else {}
        recorded = {**members, "commits": commits, **tree, **warned}
        await self._run.record([Entry(v.TURN_RECORDED, recorded)])
        await self._run.attempts.look_for_progress()

    async def settled(self) -> None:
        """Return once nothing reads the tree any more."""
        if self._recording:
            await self._recorded.wait()

    def unsent(self) -> list[Entry]:
        """The lines that say which prompts the run's end came before."""
        return [_dropped(q, "run_ended") for q in self._run.view.queue if q.number > 1]


def started(boot: str, turn: int, queued: Queued) -> Entry:
    """The line that a turn begins with."""
    title = {"title": queued.title} if queued.title else {}
    when = {"clock": stamp(boot)}
    return Entry(v.TURN_STARTED, {"turn": turn, "prompt": queued.number, **title, **when})


def over(handle: str, verb: str, state: str) -> RpcError:
    """The refusal of something that needs a run which lives."""
    ended = state == "ended"
    again = f"coachman resume {handle} PROMPT goes on in its session"
    return RpcError(
        "Conflict",
        f"cannot {verb} {handle}: the run {'has ended' if ended else 'is ending'}",
        hint=again if ended else f"wait for its end, then {again}",
        detail={"state": state},
        next=[["coachman", "result" if ended else "wait", handle]],
    )


def queued_entry(
    queued: Queued, by: Mapping[str, Any], *, first: bool = False, key: str | None = None
) -> Entry:
    members = {"prompt": queued.number, "title": queued.title, "by": dict(by), **_sealed(queued)}
    told = {"first": first or None, "key": key}
    known = {name: value for name, value in told.items() if value is not None}
    return Entry(v.PROMPT_QUEUED, {**members, **known})


def _sealed(queued: Queued) -> dict[str, Any]:
    return {"file": queued.file} if queued.file is not None else {}


def _dropped(queued: Queued, why: str) -> Entry:
    members = {"prompt": queued.number, "title": queued.title, "why": why}
    return Entry(v.PROMPT_DROPPED, members)
