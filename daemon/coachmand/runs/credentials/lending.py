"""What a caller's shell lends to a run: known to this daemon only, and asked for again by the next.

A process that is there has it. A fresh one would be without, and fail in the agent's own words much
later: so the run waits for somebody who lends it again, and holds no place meanwhile.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...rpc.errors import RpcError
from ..control import inbox
from ..facts import deadlines
from ..facts.clock import Moment, boottime_s
from ..preparing.program import secret_names
from .environment import environment_of

if TYPE_CHECKING:
    from ..run import Run

CREDENTIALS = "credentials"


class Lending:
    """Waits for what is lacking. ``due_s`` is until when (CLOCK_BOOTTIME), while it does."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self.due_s: float | None = None

    def __repr__(self) -> str:
        return f"<Lending to {self._run.fixed.handle}, {', '.join(self.lacking) or 'all there'}>"

    @property
    def lacking(self) -> list[str]:
        """The names of what the caller lent and nobody knows any more."""
        run = self._run
        lent = (name for name, source in run.fixed.environment.items() if source == "request")
        return [name for name in lent if name not in run.environment]

    async def is_there(self) -> bool:
        """Whether a fresh process would have everything; else the run waits for it."""
        run, lacking = self._run, self.lacking
        if lacking:
            await self._wait_for(lacking)
        elif run.view.credentials is not None:
            await self._go_on(None)
        else:
            return True
        return False

    async def _wait_for(self, names: list[str]) -> None:
        run = self._run
        until = run.view.credentials
        if until is None:
            at = Moment.now(run.boot, self._begins_in_s() + run.fixed.permission_s)
            moment = {"boot": at.boot, "boottime_s": at.boottime_s, "epoch_ms": at.epoch_ms}
            until = {**moment, "names": names}
            await run.enter("waiting", CREDENTIALS, until=until)
        run.services.admission.leave(run.fixed.run)
        at = Moment(until["boot"], until["boottime_s"], until["epoch_ms"])
        due_s = at.due_boottime_s(run.boot)
        self.due_s = deadlines.permission_due_after_restart_s(due_s, boottime_s())
        run.attempts.hold()

    def _begins_in_s(self) -> float:
        """How long nobody needs it, as the provider takes no more before."""
        goes_on, run = self._run.view.again, self._run
        if goes_on is None:
            return 0.0
        at = Moment(goes_on["boot"], goes_on["boottime_s"], goes_on["epoch_ms"])
        return max(0.0, at.due_boottime_s(run.boot) - boottime_s())

    async def lend(self, asked: inbox.Lent) -> None:
        """Take the values, if it is all that is lacking, and go on."""
        run, waits = self._run, self._run.view.credentials
        if waits is None or run.end.failure is not None:
            raise self._nothing_lacks()
        missing = [name for name in waits["names"] if name not in asked.env]
        if missing:
            raise RpcError(
                "InvalidParams",
                f"cannot lend to {run.fixed.handle}: {', '.join(missing)} is not set",
                hint="set it in the shell that lends it, and answer again",
                detail={"missing": missing},
            )
        adapter = run.services.adapters[run.fixed.adapter]
        declared = (*adapter.spec.environment, *run.fixed.walls.environment)
        run.environment, _ = environment_of(asked.env, run.fixed.agent, declared, run.services)
        run.lent = asked.env
        run.redact(run.environment[name] for name in secret_names(adapter, run.environment))
        await self._go_on(asked.by)
        asked.reply.give({"names": waits["names"]})

    def _nothing_lacks(self) -> RpcError:
        run, state = self._run, self._run.view.state
        return RpcError(
            "Conflict",
            f"cannot lend to {run.fixed.handle}: it lacks nothing ({state})",
            detail={"state": state},
            next=[["coachman", "show", run.fixed.handle]],
        )

    async def _go_on(self, by: Mapping[str, Any] | None) -> None:
        """Wait for what else there is to wait for."""
        run, goes_on = self._run, self._run.view.again
        self.due_s = None
        if goes_on is not None:
            until = {name: value for name, value in goes_on.items() if name != "reason"}
            await run.enter("waiting", goes_on["reason"], by, until=until)
            run.attempts.hold()
        else:
            await run.enter("queued", CREDENTIALS, by)
            run.queue_for_place()

    async def expired(self) -> None:
        """Nobody lent it in time."""
        run, waits = self._run, self._run.view.credentials
        self.due_s = None
        await run.record([Entry(v.DEADLINE_EXPIRED, {"which": CREDENTIALS})])
        names = ", ".join(waits["names"] if waits else ())
        why = f"the daemon was restarted, and nobody lent {names} again in time"
        run.end.fail(f"cannot start the agent: {why}")
