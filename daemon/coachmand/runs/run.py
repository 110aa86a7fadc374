"""One run: one task with one inbox, which alone writes the run's journal.

Everything that happens to a run arrives as a message and is carried out in
order, so an end never overtakes what came before it. What follows from the state
is decided by looking at the state (`_advance`), never by remembering that
something was about to be done: a run that is found again after a crash goes on
through the same code.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import asdict

from .. import durable
from ..evidence.rundir import RunDirectory
from ..journal import vocabulary as v
from ..journal.lines import Entry
from ..journal.log import Journal
from ..redaction import Redactor
from .attempts import adoption
from .attempts.attempt import Attempt
from .attempts.following import Attempts
from .attempts.preparation import Preparation
from .control import inbox, noting, requests
from .control.asking import Asking
from .control.budgets import Budget
from .control.disk import DiskWatch
from .control.questions import Questions
from .control.timing import Timing
from .control.turns import Turns
from .credentials.lending import Lending
from .ending import ladder
from .ending.check import Check
from .ending.conclusion import ENDED_BY_REASON, conclude, write_result
from .ending.end import End
from .ending.product import product_of
from .facts import transitions
from .facts.clock import boottime_s, stamp
from .facts.deadlines import LIVING
from .facts.record import Record
from .keepers.starting import KeeperError, Starting
from .preparing.program import secret_names
from .preparing.worktree import admin_dir
from .reading import late
from .reading.view import View
from .services import Services

if TYPE_CHECKING:
    from .preparing.prepare import Launch

log = structlog.get_logger("run")


class Run:
    """A living run. ``environment`` holds the caller's variables, in memory only.

    ``lent`` are those of them that came with the request, which its children get as well.
    """

    def __init__(
        self,
        record: Record,
        directory: RunDirectory,
        journal: Journal,
        view: View,
        services: Services,
        environment: Mapping[str, str],
        *,
        lent: Mapping[str, str] | None = None,
        broken: str | None = None,
    ) -> None:
        self.lent = lent or {}
        self.broken = broken
        self.taken_up_again = broken is not None
        self.found: dict[str, Any] | None = None
        self.fixed = record
        self.directory = directory
        self.journal = journal
        self.view = view
        self.services = services
        self.environment = environment
        adapter = services.adapters[record.adapter]
        self._secrets = {environment[name] for name in secret_names(adapter, environment)}
        self.boot = services.boot
        self.permission_s = record.permission_s
        self._send, self._receive = trio.open_memory_channel[inbox.Message](math.inf)
        self._output_is_due = False
        self._over = False
        self.ladder = ladder.Ladder()
        self.end = End(self)
        self.preparation = Preparation(self)
        self.turns = Turns(self)
        self.timing = Timing(self)
        self.check = Check(self)
        self.attempts = Attempts(self)
        self.budget = Budget(self)
        self.lending = Lending(self)
        self.disk = DiskWatch(self)
        self.questions = Questions(self)
        self.asking = Asking(self)
        self.launch: Launch | None = None
        # The beginning of its prompt, once somebody has asked for it.
        self.prompt_shown: str | None = None
        self.attempt: Attempt | None = None

    def __repr__(self) -> str:
        return f"<Run {self.fixed.handle} {self.view!r} {self.attempt!r}>"

    @property
    def secrets(self) -> frozenset[str]:
        """What is masked in everything that is written of it."""
        return frozenset(self._secrets)

    @property
    def is_leaving(self) -> bool:
        """Whether it is on its way to its end, for good."""
        view = self.view
        if self.end.concluding or view.state in ("checking", "ended"):
            return True
        return view.state == "stopping" and view.reason in ENDED_BY_REASON

    # --- the task ---

    async def live(self) -> None:
        """Carry the run to its end, from wherever it is."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            if self.fixed.delegate is not None and self.view.state != "ended":
                nursery.start_soon(self.services.offer, self)
            if self.found is not None:
                await self.questions.found_again()
            if self.found is not None and self.view.state != "ended":
                await self.record([Entry(v.RUN_RECOVERED, self.found)])
            if self.broken and self.view.state != "ended":
                await adoption.end_broken(self, self.broken)
                await self._advance()
            elif self.view.state == "ended":
                # A crash came between the end and the result that is derived from it.
                await write_result(self, await product_of(self))
            else:
                await self.timing.notice_sleep()
                await adoption.resume(self)
                await self._advance()
            while self.view.state != "ended":
                message = await self._next()
                if message is not None:
                    await self._take(message)
                await self.timing.expire_due()
                await self._advance()
            self.questions.close()
            nursery.cancel_scope.cancel()

    def let_go(self) -> list[Starting]:
        """Close the logs and the link; an agent that lives goes on in its keeper.

        Returns the keepers that were loaded for it and have no record yet.
        """
        self._over = True
        unused: list[Starting] = []
        if self.attempt is not None:
            self.attempt.close()
        self.attempts.close()
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
        events = await self.journal.append(late.marked(view, entries), envelope)
        for event in events:
            view.apply(event)
        self.services.notices.saw(self.fixed, view, events)
        types = {event["type"] for event in events}
        if v.USAGE_UPDATED in types and self.fixed.ancestors:
            self.services.families.told(self)
        if types & v.CHANGES:
            self.services.on_change()

    async def enter(
        self,
        state: str,
        reason: str | None = None,
        by: Mapping[str, Any] | None = None,
        error: str | None = None,
        until: Mapping[str, Any] | None = None,
        told: Sequence[Entry] = (),
    ) -> None:
        """Go over to another state.

        ``by`` says who wanted it, ``error`` why it had to be, ``until`` when it ends by itself.
        What was ``told`` of it before is written with it, whole or not at all.
        """
        current = self.view.state
        transitions.check(current, state)
        members: dict[str, Any] = {"from": current, "to": state, "reason": reason}
        more = {"by": dict(by) if by else None, "error": error, "until": until}
        members |= {name: value for name, value in more.items() if value is not None}
        members["clock"] = stamp(self.boot)
        await self.record([*told, Entry(v.RUN_STATE, members)])

    async def _next(self) -> inbox.Message | None:
        due_s = self.timing.due_s
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
            case (
                inbox.Passed()
                | inbox.FeedFailed()
                | inbox.LoginRenewed()
                | inbox.LoginTold()
                | inbox.CheckpointAsked()
                | inbox.Slept()
                | inbox.Priced()
                | inbox.DiskTaken()
                | inbox.NetworkDecided()
            ):
                await self._keep_house(message)
            case inbox.Admitted():
                await self._admitted()
            case inbox.Prepared() | inbox.SettingUp():
                await self.preparation.take(message)
            case inbox.KeeperGone():
                await adoption.find_keeper(self)
            case inbox.LivesOn(path=path, error=error):
                await self.lives_on(path, error)
            case inbox.Concluded(product=product):
                await conclude(self, product)
            case _:
                self.end.note(message)

    async def _note(self, message: inbox.FeedFailed | inbox.LoginRenewed | inbox.LoginTold) -> None:
        """What others found out that the run has something to do with."""
        match message:
            case inbox.FeedFailed():
                told = asdict(message, filter=lambda _, value: value is not None)
                await self.record([Entry(v.FEED_FAILED, told)])
            case inbox.LoginRenewed(secrets=secrets):
                self.redact(secrets)
            case inbox.LoginTold(message=text):
                await self.record([Entry(v.ERROR, {"message": text})])

    async def _keep_house(
        self,
        message: inbox.CheckpointAsked
        | inbox.Slept
        | inbox.Priced
        | inbox.DiskTaken
        | inbox.NetworkDecided
        | inbox.FeedFailed
        | inbox.LoginRenewed
        | inbox.LoginTold
        | inbox.Passed,
    ) -> None:
        match message:
            case inbox.Passed():
                await self.questions.passed(message)
            case inbox.FeedFailed() | inbox.LoginRenewed() | inbox.LoginTold():
                await self._note(message)
            case inbox.NetworkDecided():
                await noting.note(self)
            case inbox.Slept():
                await self.timing.notice_sleep()
            case inbox.Priced():
                self.budget.priced(message)
            case inbox.DiskTaken():
                if self.view.state in LIVING:
                    await self.stop("disk_limit")
            case inbox.CheckpointAsked(reply=reply):
                if self.attempt is not None and not self.attempt.behind:
                    await self.attempt.checkpoint()
                reply.give(None)

    async def _feed(self) -> None:
        self._output_is_due = False
        if self.attempt is not None and await self.attempt.feed():
            self.post(inbox.OutputGrew())

    def living_attempt(self) -> Attempt:
        """The attempt, where it is certain that there is one."""
        assert self.attempt is not None
        return self.attempt

    async def _admitted(self) -> None:
        if self.view.goes_on:
            await self.attempts.admitted()
        elif self.view.state == "queued":
            await self.enter("preparing")
            self.preparation.start()
        else:
            await self.turns.admitted()

    def queue_for_place(self, *, since_s: float | None = None) -> None:
        """Ask for a place among the active ones; a message tells once it is ours."""
        fixed = self.fixed
        self.services.admission.enter(
            fixed.run,
            lambda: self.post(inbox.Admitted()),
            account=fixed.account,
            priority=fixed.priority,
            since_s=fixed.created_ms / 1000 if since_s is None else since_s,
        )

    async def lives_on(self, path: os.PathLike[str], error: KeeperError) -> None:
        """Something of it could not be ended: on record, since its end would hide that."""
        log.error("orphans_live", run=self.fixed.run, error=str(error))
        self.services.survivors.note(os.fspath(path), error)
        await self.record([Entry(v.ERROR, {"message": str(error)})])

    @property
    def held_until_ms(self) -> int | None:
        """Until when its provider's limit keeps it in the queue; None where nothing does so."""
        if self.view.state != "queued":
            return None
        return self.services.admission.held().get(self.fixed.account)

    def forget_attempt(self) -> None:
        """The next one ends in its own way."""
        self.end, self.ladder = End(self), ladder.Ladder()
        self.questions.due_s.clear()
        self.launch = None

    def redact(self, secrets: Iterable[str]) -> None:
        """Mask these values, too, in everything that is written from now on."""
        self._secrets.update(secrets)
        self.journal.redact(Redactor(self._secrets))

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
            await self.asking.settle()
            await self._mirror_waiting()
            await self.budget.check()
            await self.attempts.consider()
            if not attempt.held:
                await self.turns.advance()
                await self._mirror_waiting()
            await self._leave_other_session()
            await self._close_after_turn()
        if self.end.is_lost or not attempt.behind:
            await self.end.advance()

    async def _mirror_waiting(self) -> None:
        view, why = self.view, self._waits_for()
        if view.state == "waiting" and view.reason != why:
            await self.enter("active")
        if view.state == "active" and why is not None:
            await self.enter("waiting", why)
        await self._hold_or_release(view.state == "waiting" and why == "storage")

    def _waits_for(self) -> str | None:
        if self.view.goes_on:
            return self.view.reason
        if self.services.storage.is_full and self.end.exit is None:
            return "storage"
        return "permission" if self.view.pending else "question" if self.view.questions else None

    async def _hold_or_release(self, hold: bool) -> None:
        """What an agent says while the disk is full waits in its pipes."""
        attempt = self.living_attempt()
        if hold and not attempt.held:
            # Nor is anything confirmed that it is not heard to confirm.
            self.turns.interrupt_due_s = None
            await attempt.hold()
        elif attempt.held and not hold:
            await attempt.release()

    def refused(self, error: OSError) -> None:
        """The keeper's disk took something not. Raises DiskError where room would not help."""
        self.services.storage.refused(error, f"what is told to {self.fixed.handle}")
        if error.errno not in durable.NO_ROOM:
            raise durable.DiskError(error.errno, error.strerror)

    async def _leave_other_session(self) -> None:
        """An agent that is not in the session that it was to resume, or began with, has to go."""
        view = self.view
        wanted = self.attempts.acting.session or view.first_session
        other = None not in (wanted, view.session) and view.session != wanted
        if other and view.state != "stopping" and self.end.exit is None:
            await self.stop("session_changed")

    async def _close_after_turn(self) -> None:
        """A bounded run closes after its first turn: the agent may take its leave."""
        view = self.view
        if not view.turn_over or self.end.exit is not None:
            return
        if view.state == "checking" or view.goes_on:
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
        # A run that writes nothing ends with what it found, a sealed one with nothing at all.
        if not self.fixed.writes:
            return start, start
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

    async def stop(
        self,
        reason: str,
        by: Mapping[str, Any] | None = None,
        told: Sequence[Entry] = (),
        error: str | None = None,
    ) -> None:
        """Bring the run to its end now, whatever its agent is at."""
        await self.enter("stopping", reason, by, error, told=told)
        self.services.families.take_along(self.fixed.run)
        if self.attempt is not None:
            await self.climb()

    async def climb(self) -> None:
        """Do the next thing that may end the agent."""
        await self.ladder.climb(self.living_attempt(), self.view)
