"""How a run comes to its end: what is known of it, and what is still to be done."""

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve

from ...durable import DiskError
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...permissions import modes
from ..attempts.attempt import Attempt
from ..attempts.dialogue import Input
from ..control import inbox, noting
from ..control.costs import cost_of
from ..control.questions import resolved
from .epilogue import run_epilogue
from .product import product_of

if TYPE_CHECKING:
    from ..run import Run


class End:
    """The end of one run. ``exit`` is the keeper's record, or {"lost": why}; ``failure`` says
    why no agent could be started. `advance` does what follows, whenever it is looked at.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        self.exit: dict[str, Any] | None = None
        self.failure: str | None = None
        self.concluding = False
        self._epilogue: inbox.EpilogueDone | None = None
        self._epilogue_started = False
        self._family_told = False

    def __repr__(self) -> str:
        return f"<End exit={self.exit is not None} concluding={self.concluding}>"

    @property
    def is_lost(self) -> bool:
        """Whether nobody can say how the agent ended."""
        return self.exit is not None and "lost" in self.exit

    def fail(self, message: str) -> None:
        """No agent could be started: "cannot X: Y"."""
        self.failure = message

    def lost(self, why: str, because: str | None = None) -> None:
        """The agent's end cannot be known."""
        self.exit = {"lost": why, **({"because": because} if because else {})}

    def note(self, message: inbox.Message) -> None:
        """Take in what a message tells about the end."""
        match message:
            case inbox.Failed(message=text):
                self.failure = text
            case inbox.Exited(attempt=number, exit=exit) if self._is_news(number):
                reach("end.exited")
                self.exit = self._trusted(exit)
                # The end follows once all of the output is read, whoever announced it or not.
                self._run.post(inbox.OutputGrew())
            case inbox.StorageRefused(message=text):
                raise DiskError(errno.EIO, text)
            case inbox.EpilogueDone():
                self._epilogue = message
            case inbox.CheckDone():
                self._run.check.note(message)

    def _is_news(self, attempt: int) -> bool:
        """Whether that attempt's end is still to come: its keeper tells it again when asked."""
        view = self._run.view
        return attempt == view.attempt and not view.attempt_over and not self.is_lost

    def _trusted(self, exit: dict[str, Any]) -> dict[str, Any]:
        """An end whose logs may not be on the disk is known by nobody."""
        why = exit.get("storage_error")
        if why is None:
            return exit
        self._run.services.storage.degrade(OSError(errno.EIO, why), "an agent's output")
        return {"lost": "storage_failed"}

    async def advance(self) -> None:
        """Go on towards the end, as far as the agent is through."""
        run, exit = self._run, self.exit
        if self.failure is not None or run.attempt is None:
            await self._without_agent()
        elif self.is_lost:
            await self._enter_stopping("lost" if exit is None else exit["lost"])
            await self._conclude(exit or {})
        elif exit is not None and run.attempt.stdout_is_read(exit.get("stdout_bytes") or 0):
            await self._finish(run.attempt, exit)

    async def _finish(self, attempt: Attempt, exit: Mapping[str, Any]) -> None:
        run = self._run
        if run.view.state != "checking" and not run.view.goes_on:
            await self._enter_stopping("agent_exited")
        run.ladder.leave()
        if not run.view.finished:
            if self._waits_for_epilogue():
                return
            payload = {"exit_code": exit.get("exit_code"), "signal": exit.get("signal")}
            given = Input("finish", attempt.dialogue.fed, {**payload, **self._account()})
            ending = await trio.to_thread.run_sync(attempt.ending, given)
            await attempt.tell(given.kind, given.payload, ending=ending)
            reach("end.finished")
        await run.budget.check()
        await run.attempts.consider()
        self._take_family_along()
        if not await run.check.advance():
            await self._conclude(exit)

    def _waits_for_epilogue(self) -> bool:
        """Whether the epilogue is still to come; starts it where it is wanted."""
        launch, view = self._run.launch, self._run.view
        if launch is None or not launch.epilogue or not view.session or not view.turn_over:
            return False
        if not self._epilogue_started:
            self._epilogue_started = True
            self._run.spawn(run_epilogue, self._run, launch, view.session)
        return self._epilogue is None

    def _account(self) -> dict[str, Any]:
        """Whether the epilogue told anything, and why it did not."""
        if self._epilogue is None:
            return {"epilogue": False}
        error = self._epilogue.error
        return {"epilogue": error is None, **({"epilogue_error": error} if error else {})}

    async def _without_agent(self) -> None:
        run = self._run
        await self._enter_stopping("start_failed" if self.failure else None, self.failure)
        self.concluding = True
        self._take_family_along()
        run.preparation.stop()
        if run.view.attempt and not run.view.attempt_over:
            await run.record([Entry(v.ATTEMPT_ENDED, {"exit": None})])
        run.spawn(self._gather)

    async def _conclude(self, exit: Mapping[str, Any]) -> None:
        run = self._run
        self.concluding = not run.view.goes_on
        self._take_family_along()
        if not run.view.attempt_over:
            withdrawn = modes.withdrawn("agent")
            leftovers = [resolved(request, withdrawn) for request in run.view.pending]
            leftovers += await noting.counted(run)
            await run.record([*leftovers, Entry(v.ATTEMPT_ENDED, {"exit": dict(exit)})])
            reach("end.attempt_over")
        if self.concluding:
            run.spawn(self._gather)
        else:
            await run.attempts.over()

    def conclude_again(self, exit: dict[str, Any]) -> None:
        """The attempt's end is on record already: only the run's own is missing."""
        self.exit, self.concluding = exit, True
        self._take_family_along()
        self._run.spawn(self._gather)

    def _take_family_along(self) -> None:
        """Nobody is left who would take what they do."""
        if not (self._family_told or self._run.view.goes_on):
            self._family_told = True
            self._run.services.families.take_along(self._run.fixed.run)

    async def _gather(self) -> None:
        await self._run.turns.settled()
        await self._run.services.families.gone(self._run.fixed.run)
        reach("end.recording")
        product = await product_of(self._run)
        reach("end.tree_recorded")
        self._run.post(inbox.Concluded(evolve(product, cost=await cost_of(self._run))))

    async def _enter_stopping(self, reason: str | None, error: str | None = None) -> None:
        if self._run.view.state != "stopping":
            await self._run.enter("stopping", reason, error=error)
