"""The time of one run: what of it runs when, what is due, and what follows when it is over."""

from typing import TYPE_CHECKING

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ..facts import deadlines
from ..facts.clock import Moment, asleep_s, boottime_s, epoch_ms, stamp
from ..facts.deadlines import Deadline, Limit

if TYPE_CHECKING:
    from ..run import Run

# The two clocks are not read at the same instant.
SLEPT_AT_LEAST_S = 1.0
# The end of these is the run's own.
ENDING = frozenset({"wall", "work", "stall", "turn", "queue"})


class Timing:
    """Expires what is due. ``heard_s`` is when the agent last said anything (CLOCK_BOOTTIME)."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self.heard_s = 0.0

    def __repr__(self) -> str:
        return f"<Timing of {self._run.fixed.handle}>"

    def heard(self) -> None:
        """The agent said something."""
        self.heard_s = boottime_s()

    @property
    def due_s(self) -> float | None:
        """When to look again; None where nothing is to come."""
        return min((deadline.due_s for deadline in self._pending()), default=None)

    def ends_at_ms(self) -> dict[str, int]:
        """The deadlines that run now, for people."""
        limits = {**self._limits()}
        shown = {which for which in limits if self._run.view.state in deadlines.RUNS_IN[which]}
        now_s, now_ms = boottime_s(), epoch_ms()
        return {
            which: int(now_ms + (limits[which].due_s - now_s) * 1000)
            for which in sorted(shown - {"stall"})
        }

    async def expire_due(self) -> None:
        """Carry out the first thing that is due: what follows from it is to be looked at first."""
        run, pending = self._run, self._pending()
        if run.attempt is not None and run.attempt.behind:
            return
        if pending and pending[0].due_s <= boottime_s():
            first = pending[0]
            await (self._warn(first) if first.warns else self._expire(first))

    async def notice_sleep(self) -> None:
        """Where the machine slept since the journal last told, say so: that counts for nobody."""
        run, before = self._run, self._run.view.asleep
        if before is None or before["boot"] != run.boot or run.view.state == "ended":
            return
        slept_s = asleep_s() - before["asleep_s"]
        if slept_s >= SLEPT_AT_LEAST_S:
            self.heard_s += slept_s
            members = {"seconds": round(slept_s, 3), "clock": stamp(run.boot)}
            await run.record([Entry(v.HOST_SUSPENDED, members)])

    # --- what is due ---

    def _pending(self) -> list[Deadline]:
        run, view = self._run, self._run.view
        alive = run.attempt is not None and run.end.exit is None
        asked_s = run.fixed.permission_s
        return deadlines.pending(
            deadlines.Facts(
                view.state,
                self._limits(),
                {name: Limit(due_s, asked_s) for name, due_s in run.questions.due_s.items()},
                run.asking.limits(),
                run.attempt.timers_due_s if alive and run.attempt is not None else {},
                run.ladder.due_s,
                run.turns.interrupt_due_s,
                view.turn_runs and run.end.exit is None,
                bool(view.open_tools),
                run.attempts.due_s if view.goes_on else None,
                view.warned,
            )
        )

    def _limits(self) -> dict[str, Limit]:
        fixed, view, boot = self._run.fixed, self._run.view, self._run.boot
        wall_s = fixed.wall.due_boottime_s(boot)
        began_s = wall_s - fixed.wall_s
        turn_since = view.in_turn.since
        heard_s = max(self.heard_s, turn_since.due_boottime_s(boot)) if turn_since else None
        due_s = {
            "wall": (wall_s, fixed.wall_s),
            "work": (view.working.due_boottime_s(boot, fixed.work_s or 0), fixed.work_s),
            "turn": (view.in_turn.due_boottime_s(boot, fixed.turn_s or 0), fixed.turn_s),
            "stall": (heard_s and heard_s + (fixed.stall_s or 0), fixed.stall_s),
            "queue": (began_s + (fixed.queue_s or 0), fixed.queue_s),
            "parked": (self._run.turns.parked_due_s, fixed.parked_s),
            "credentials": (self._run.lending.due_s, fixed.permission_s),
        }
        return {which: Limit(at, limit) for which, (at, limit) in due_s.items() if at and limit}

    # --- what follows ---

    async def _warn(self, deadline: Deadline) -> None:
        # That of many questions is told with its request, as its end is.
        key = {"request": deadline.key} if deadline.key else {}
        ends = self._ends(deadline)
        left_s = max(0.0, round(ends - boottime_s(), 3))
        at = Moment.now(self._run.boot, left_s)
        members = {"which": deadline.which, **key, "deadline": at.epoch_ms, "left_s": left_s}
        await self._run.record([Entry(v.DEADLINE_WARNED, members)])

    def _ends(self, warning: Deadline) -> float:
        """When what is warned of will be over."""
        same = [d for d in self._pending() if d.name == warning.name and not d.warns]
        return same[0].due_s

    async def _expire(self, deadline: Deadline) -> None:
        run = self._run
        match deadline.which:
            case "timer":
                await run.living_attempt().expire(deadline.key)
            case "ladder":
                await run.climb()
            case "permission":
                await run.questions.expire(deadline.key)
            case "question":
                await run.asking.expire(deadline.key)
            case "again":
                await run.attempts.due()
            case "interrupt":
                await run.turns.unconfirmed()
            case "credentials":
                await run.lending.expired()
            case "parked":
                await run.turns.parked_too_long()
            case which if which in ENDING and run.view.state in deadlines.RUNS_IN[which]:
                await run.stop(which, told=[Entry(v.DEADLINE_EXPIRED, {"which": which})])
