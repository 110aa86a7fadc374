"""One run: one task with one inbox, which alone writes the run's journal.

Everything that happens to a run arrives as a message and is carried out in
order, so an end never overtakes what came before it. What follows from the state
is decided by looking at the state (`_advance`), never by remembering that
something was about to be done: a run that is found again after a crash goes on
through the same code.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog
import trio

from ..evidence.rundir import RunDirectory
from ..journal import vocabulary as v
from ..journal.lines import Entry
from ..journal.log import Journal
from ..redaction import Redactor
from . import adoption, deadlines, inbox, ladder, requests, transitions
from .attempt import Attempt
from .clock import boottime_s
from .conclusion import conclude, product_of, write_result
from .end import End
from .keepers import Starting
from .preparation import Preparation
from .prepare import Launch, admin_dir
from .questions import Questions
from .record import Record
from .services import Services
from .turns import Turns
from .view import View

log = structlog.get_logger("run")


class Run:
    """A living run. ``environment`` holds the caller's variables, in memory only."""

    def __init__(
        self,
        record: Record,
        directory: RunDirectory,
        journal: Journal,
        view: View,
        services: Services,
        environment: Mapping[str, str],
        *,
        broken: bool = False,
    ) -> None:
        self.broken = broken
        self.taken_up_again = broken
        self.fixed = record
        self.directory = directory
        self.journal = journal
        self.view = view
        self.services = services
        self.environment = environment
        self.boot = services.boot
        self.permission_s = record.permission_s
        self._send, self._receive = trio.open_memory_channel[inbox.Message](math.inf)
        self._output_is_due = False
        self._over = False
        self.ladder = ladder.Ladder()
        self.end = End(self)
        self.preparation = Preparation(self)
        self.turns = Turns(self)
        self.questions = Questions(record.permissions, self.boot, view, self.living_attempt)
        self.launch: Launch | None = None
        self.attempt: Attempt | None = None

    def __repr__(self) -> str:
        return f"<Run {self.fixed.handle} {self.view!r} {self.attempt!r}>"

    # --- the task ---

    async def live(self) -> None:
        """Carry the run to its end, from wherever it is."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            if self.broken and self.view.state != "ended":
                await adoption.end_broken(self)
                await self._advance()
            elif self.view.state == "ended":
                # A crash came between the end and the result that is derived from it.
                await write_result(self, await product_of(self))
            else:
                await adoption.resume(self)
                await self._advance()
            while self.view.state != "ended":
                message = await self._next()
                if message is not None:
                    await self._take(message)
                await self._expire_due()
                await self._advance()
            nursery.cancel_scope.cancel()

    def let_go(self) -> list[Starting]:
        """Close the logs and the link; an agent that lives goes on in its keeper.

        Returns the keepers that were loaded for it and have no record yet.
        """
        self._over = True
        unused: list[Starting] = []
        if self.attempt is not None:
            self.attempt.close()
        self.journal.close()
        with suppress(trio.WouldBlock):
            while True:
                message = self._receive.receive_nowait()
                requests.turn_away(self, message)
                if isinstance(message, inbox.Prepared):
                    unused.append(message.starting)
        return unused

    def post(self, message: inbox.Message) -> None:
        """Put a message in the inbox; updates of stdout are merged into one."""
        if self._over:
            requests.turn_away(self, message)
            return
        if isinstance(message, inbox.OutputGrew):
            if self._output_is_due:
                return
            self._output_is_due = True
        self._send.send_nowait(message)

    def spawn(self, function: Any, *args: Any) -> None:
        """Start a task that lives within the run's own."""
        self._nursery.start_soon(function, *args)

    @property
    def nursery(self) -> trio.Nursery:
        """Where the run's helpers live."""
        return self._nursery

    async def record(self, entries: Sequence[Entry]) -> None:
        """Append to the journal and keep the view current."""
        view = self.view
        here = {"attempt": view.attempt, "turn": view.turn, "session": view.session}
        envelope = {name: value for name, value in here.items() if value}
        events = await self.journal.append(entries, envelope)
        for event in events:
            view.apply(event)
        if any(event["type"] in v.CHANGES for event in events):
            self.services.on_change()

    async def enter(
        self,
        state: str,
        reason: str | None = None,
        by: Mapping[str, Any] | None = None,
        error: str | None = None,
        until: Mapping[str, Any] | None = None,
    ) -> None:
        """Go over to another state.

        ``by`` says who wanted it, ``error`` why it had to be, ``until`` when it ends by itself.
        """
        current = self.view.state
        transitions.check(current, state)
        members: dict[str, Any] = {"from": current, "to": state, "reason": reason}
        told = {"by": dict(by) if by else None, "error": error, "until": until}
        members |= {name: value for name, value in told.items() if value is not None}
        await self.record([Entry(v.RUN_STATE, members)])

    async def _next(self) -> inbox.Message | None:
        due_s = min((d.due_s for d in self._deadlines()), default=None)
        limits = [trio.current_time() + max(0.0, due_s - boottime_s())] if due_s is not None else []
        if self.journal.sync_due_s is not None:
            limits.append(trio.current_time() + 1.0)
        with trio.move_on_at(min(limits, default=trio.current_time() + 3600)):
            return await self._receive.receive()
        await self.journal.sync()
        return None

    async def _take(self, message: inbox.Message) -> None:
        match message:
            case inbox.OutputGrew():
                await self._feed()
            case inbox.Asked():
                await requests.carry_out(self, message)
            case inbox.TurnRecorded():
                await self.turns.recorded(message)
            case inbox.CheckpointAsked(reply=reply):
                if self.attempt is not None and not self.attempt.behind:
                    await self.attempt.checkpoint()
                reply.give(None)
            case inbox.Admitted():
                await self._admitted()
            case inbox.Prepared():
                await self.preparation.over(message)
            case inbox.KeeperGone():
                await adoption.find_keeper(self)
            case inbox.Concluded(product=product):
                await conclude(self, product)
            case _:
                self.end.note(message)

    async def _feed(self) -> None:
        self._output_is_due = False
        if self.attempt is not None and await self.attempt.feed():
            self.post(inbox.OutputGrew())

    def living_attempt(self) -> Attempt:
        """The attempt, where it is certain that there is one."""
        assert self.attempt is not None
        return self.attempt

    async def _admitted(self) -> None:
        if self.view.state == "queued":
            await self.enter("preparing")
            self.preparation.start()
        else:
            await self.turns.admitted()

    def redact(self, secrets: Iterable[str]) -> None:
        """Mask these values in everything that is written from now on."""
        self.journal.redact(Redactor(secrets))

    # --- what follows from the state ---

    async def _advance(self) -> None:
        if self.view.state == "ended" or self.end.concluding:
            return
        attempt = self.attempt
        if attempt is None:
            if self.end.failure is not None or self.view.state == "stopping":
                await self.end.advance()
            return
        if not (self.end.is_lost or self.end.failure or attempt.behind):
            await self.questions.decide()
            await self._mirror_waiting()
            await self.turns.advance()
            await self._mirror_waiting()
            await self._leave_other_session()
            await self._close_after_turn()
        if self.end.is_lost or not attempt.behind:
            await self.end.advance()

    async def _mirror_waiting(self) -> None:
        if self.view.state == "active" and self.view.pending:
            await self.enter("waiting", "permission")
        elif self.view.state == "waiting" and not self.view.pending:
            await self.enter("active")

    async def _leave_other_session(self) -> None:
        """An agent that is not in the session that it was to resume is not gone on with."""
        wanted, view = self.fixed.session, self.view
        other = None not in (wanted, view.session) and view.session != wanted
        if other and view.state != "stopping" and self.end.exit is None:
            await self.stop("session_changed")

    async def _close_after_turn(self) -> None:
        """A bounded run closes after its first turn: the agent may take its leave."""
        view = self.view
        if not view.turn_over or self.end.exit is not None:
            return
        if not view.stdin_closed:
            # A kept agent waits for another prompt: it has confirmed a cancel, so go on.
            if view.state == "stopping" and self.ladder.rung is ladder.CANCEL:
                await self.climb()
            return
        if view.state != "stopping":
            await self.enter("stopping", "turn_ended")
        if view.state == "stopping" and self.ladder.rung in (None, ladder.CANCEL):
            self.ladder.start_at(ladder.CLOSE_STDIN)

    async def snapshot_now(self) -> tuple[str, str]:
        """Commits of the run's start and of its tree as it is at this moment. Raises RepoError."""
        repo = self.fixed.repository
        start = self.view.site.start or repo.base
        snapshot = await self.services.workers.snapshot(
            repo.common_dir,
            admin_dir(self.fixed, self.view.site.admin),
            self.fixed.worktree,
            ref=None,
            parents=(start,),
            message=f"coachman: run {self.fixed.run}, not ended",
        )
        return start, snapshot.commit

    # --- answers, cancels, deadlines ---

    async def stop(self, reason: str, by: Mapping[str, Any] | None = None) -> None:
        """Bring the run to its end now, whatever its agent is at."""
        await self.enter("stopping", reason, by)
        if self.attempt is not None:
            await self.climb()

    async def climb(self) -> None:
        """Do the next thing that may end the agent."""
        await self.ladder.climb(self.living_attempt(), self.view)

    def _deadlines(self) -> list[deadlines.Deadline]:
        attempt = self.attempt
        return deadlines.pending(
            deadlines.Facts(
                self.view.state,
                self.fixed.wall.due_boottime_s(self.boot),
                self.questions.due_s,
                attempt.timers_due_s if attempt is not None and self.end.exit is None else {},
                self.ladder.due_s,
                self.turns.interrupt_due_s,
                self.turns.parked_due_s,
            )
        )

    async def _expire_due(self) -> None:
        if self.attempt is not None and self.attempt.behind:
            return
        for deadline in self._deadlines():
            if deadline.due_s > boottime_s():
                return
            await self._expire(deadline)

    async def _expire(self, deadline: deadlines.Deadline) -> None:
        match deadline.which:
            case "timer":
                await self.living_attempt().expire(deadline.key)
            case "ladder":
                await self.climb()
            case "permission":
                await self.questions.expire(deadline.key)
            case "interrupt":
                await self.turns.unconfirmed()
            case "parked":
                await self.turns.parked_too_long()
            case "wall" if self.view.state not in ("stopping", "ended"):
                await self.record([Entry(v.DEADLINE_EXPIRED, {"which": "wall"})])
                await self.stop("wall")
