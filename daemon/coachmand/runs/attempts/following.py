"""From one attempt of a run to the next: after a provider's limit, or an agent that broke.

What is to come is written down before the agent of the attempt that failed is let go of; a
daemon that finds the run waits for the same moment.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ..control.turns import queued_entry
from ..ending import ladder
from ..facts import again
from ..facts.clock import Moment, epoch_ms
from ..facts.record import Record

if TYPE_CHECKING:
    from ..run import Run
    from .attempt import Attempt

BY = {"resolver": "retry"}
GO_ON = "The limit that stopped you is over. Go on with what you were asked to do."


class Attempts:
    """Decides about another attempt of ``run`` and waits for it. ``past`` is the last one, whose
    keeper may still have to tell what is to be masked.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        self.past: Attempt | None = None
        self._queues = False
        self._holds = False

    def __repr__(self) -> str:
        return f"<Attempts of {self._run.fixed.handle}, {self._run.view.attempt} so far>"

    @property
    def due_s(self) -> float | None:
        """When the next attempt may begin, once the agent of this one is gone."""
        run, goes_on = self._run, self._run.view.again
        if goes_on is None or run.attempt is not None or self._queues:
            return None
        if run.view.credentials is not None and not self._holds:
            return None
        return Moment(goes_on["boot"], goes_on["boottime_s"], goes_on["epoch_ms"]).due_boottime_s(
            run.boot
        )

    @property
    def acting(self) -> Record:
        """The run's record as the attempt has it, or the one to come: with its session."""
        view, fixed = self._run.view, self._run.fixed
        if view.again is not None and view.attempt_over and view.again["resumes"]:
            return _in_session(fixed, view.session, view.session_counters)
        if view.resumes is not None:
            return _in_session(fixed, view.resumes, view.resumed_counters)
        return fixed

    @property
    def why(self) -> str:
        """Why the attempt that is about to begin is made."""
        if (goes_on := self._run.view.again) is not None:
            return str(goes_on["why"])
        if self._run.view.attempt == 0:
            return "first"
        return "the daemon was restarted before the agent ran"

    # --- deciding ---

    async def consider(self) -> None:
        """Look at a turn that is over: wait for another attempt, or say that there is none."""
        run, view = self._run, self._run.view
        failed = view.turn_over and (view.turn_stop_reason == "limited" or view.turn_transient)
        if not failed or view.considered == view.turn or view.state not in ("active", "stopping"):
            return
        if view.state == "stopping" and view.reason != "agent_exited":
            return
        plan = again.plan(self._facts()) if view.interrupted != view.turn else None
        told = [self._limit(plan)] if view.turn_stop_reason == "limited" else []
        if plan is None:
            if told:
                await run.record(told)
            return
        told.append(await self._prompt_again())
        await run.enter("waiting", plan.reason, until=self._until(plan), told=told)
        self.hold()
        if run.end.exit is None:
            await self.close_agent()

    def _facts(self) -> again.Facts:
        run, view = self._run, self._run.view
        spec = run.services.adapters[run.fixed.adapter].spec
        return again.Facts(
            view.turn_stop_reason or "",
            epoch_ms(),
            run.fixed.wall.epoch_ms,
            view.turn_transient and not spec.takes_argv,
            view.spoke,
            spec.resumes and view.session is not None,
            view.resets_at,
            run.fixed.on_limit,
            run.fixed.retries,
            view.tries,
            view.waits,
        )

    def _limit(self, plan: again.Plan | None) -> Entry:
        run, view = self._run, self._run.view
        provider = view.provider or run.fixed.account.partition("/")[2] or run.fixed.agent
        members = {"turn": view.turn, "provider": provider, "resets_at": view.resets_at}
        return Entry(v.LIMIT_REACHED, {**members, "action": "wait" if plan else "fail"})

    async def _prompt_again(self) -> Entry:
        """The same prompt where nothing came of it, else the word to go on."""
        turns, prompt = self._run.turns, self._run.view.prompt
        if self._run.view.spoke:
            prompt = await turns.write(GO_ON)
        return queued_entry(prompt, BY, first=True)

    def _until(self, plan: again.Plan) -> dict[str, Any]:
        at = Moment.now(self._run.boot, (plan.at_ms - epoch_ms()) / 1000)
        why = "the provider's limit" if plan.reason == again.LIMIT else "the agent broke"
        moment = {"boot": at.boot, "boottime_s": at.boottime_s, "epoch_ms": plan.at_ms}
        told = self._run.view.resets_at is not None
        return {**moment, "resumes": plan.resumes, "why": why, "told": told}

    # --- between two attempts ---

    def hold(self) -> None:
        """Let others of the same account wait behind this run."""
        view, fixed = self._run.view, self._run.fixed
        if view.goes_on and view.again is not None and view.again["reason"] == again.LIMIT:
            self._holds = True
            self._run.services.admission.hold(fixed.account, fixed.run, view.again["epoch_ms"])

    async def close_agent(self) -> None:
        """The agent has nothing more to do in this attempt."""
        run = self._run
        await run.living_attempt().close_stdin()
        run.ladder.start_at(ladder.CLOSE_STDIN)

    async def over(self) -> None:
        """The attempt is over and on record; its place is others' until the next one."""
        run = self._run
        await run.turns.settled()
        self.remember_tree()
        self.past, run.attempt = run.attempt, None
        run.forget_attempt()
        run.services.admission.leave(run.fixed.run)

    def remember_tree(self) -> None:
        """Put on record what the attempt left: the next one may leave the same."""
        view = self._run.view
        if view.goes_on and view.used_tools and view.turn_recorded < view.turn:
            self._run.turns.record_tree(view.turn)

    async def look_for_progress(self) -> None:
        """An agent that does the same over and over is not waited for again."""
        view = self._run.view
        if view.again is not None and again.is_stuck(view.times_same):
            await self._run.stop("no_progress")

    async def due(self) -> None:
        """The time has come: queue for a place, before those that came later."""
        run, self._holds = self._run, False
        if run.view.credentials is None:
            self._queues = True
            run.queue_for_place()
        run.services.admission.release(run.fixed.run)

    async def admitted(self) -> None:
        """There is a place."""
        run = self._run
        self._queues = False
        await run.enter("preparing", run.view.reason)
        run.preparation.start()

    async def let_go(self) -> None:
        """Nothing more is wanted of the last attempt: another keeper knows what is to be masked."""
        past, self.past = self.past, None
        if past is not None:
            await past.dismiss()
            past.close()

    def close(self) -> None:
        """The daemon leaves: the keeper of the last attempt goes on waiting."""
        if self.past is not None:
            self.past.close()


def _in_session(fixed: Record, session: str | None, counters: Mapping[str, float] | None) -> Record:
    """The record of an attempt in ``session``.

    Where the run has told no counters yet, those count that it was given with its session.
    """
    if counters is None and session == fixed.session:
        counters = fixed.session_counters
    return evolve(fixed, session=session, session_counters=counters)
