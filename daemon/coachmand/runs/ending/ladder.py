"""How a run is brought to its end: politely first, each rung with a limit."""

import signal

import structlog
from attrs import frozen

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ..attempts.attempt import Attempt
from ..facts.clock import boottime_s
from ..reading.view import View

log = structlog.get_logger("run")

CANCEL_GRACE_S = 5.0
EOF_GRACE_S = 8.0
TERM_GRACE_S = 3.0
KILL_GRACE_S = 5.0


@frozen
class Rung:
    """One step: what is done, and how long it may take to work."""

    name: str
    grace_s: float


CANCEL = Rung("cancel", CANCEL_GRACE_S)
CLOSE_STDIN = Rung("close_stdin", EOF_GRACE_S)
TERM = Rung("term", TERM_GRACE_S)
KILL = Rung("kill", KILL_GRACE_S)
RUNGS = (CANCEL, CLOSE_STDIN, TERM, KILL)


def after(rung: Rung | None) -> Rung:
    """The rung above, the first one for None; SIGKILL is repeated."""
    if rung is None:
        return CANCEL
    return RUNGS[min(RUNGS.index(rung) + 1, len(RUNGS) - 1)]


class Ladder:
    """Where on the ladder a run is; ``due_s`` (CLOCK_BOOTTIME) is when it climbs on."""

    def __init__(self) -> None:
        self.rung: Rung | None = None
        self.due_s: float | None = None
        self._told = False

    def __repr__(self) -> str:
        return f"<Ladder {self.rung.name if self.rung else 'unused'}>"

    def start_at(self, rung: Rung) -> None:
        """Take ``rung`` for done: the next one follows when its grace is over."""
        self.rung, self.due_s = rung, boottime_s() + rung.grace_s

    async def _survived(self, attempt: Attempt) -> None:
        """Nothing outlives SIGKILL but what waits for the kernel: the run cannot end before."""
        log.error("tree_survives", attempt=repr(attempt))
        if not self._told:
            self._told = True
            text = f"its processes were killed, and live on after {KILL_GRACE_S:.0f} s"
            await attempt.note([Entry(v.ERROR, {"message": f"cannot end the run: {text}"})])
        attempt.look_again()

    def leave(self) -> None:
        """The agent is gone: nothing more to do to it."""
        self.due_s = None

    async def climb(self, attempt: Attempt, view: View) -> None:
        """Do the next thing. A turn that is over needs no cancel, nor one never begun.

        An agent whose stdin was closed with its prompt hears of no cancel: it is signalled at once.
        """
        rung, deaf = after(self.rung), view.stdin_closed and not view.turn_over
        if rung is CANCEL and (view.turn_over or view.cancel_told or not view.told_start):
            rung = CLOSE_STDIN
        if rung is CLOSE_STDIN and deaf:
            rung = TERM
        if self.rung is KILL:
            await self._survived(attempt)
        self.start_at(rung)
        match rung.name:
            case "cancel":
                if deaf:
                    self.due_s = boottime_s()
                await attempt.tell("cancel", {"of_turn": view.turn})
            case "close_stdin":
                await attempt.close_stdin()
            case "term":
                await attempt.signal("agent", signal.SIGTERM)
            case "kill":
                await attempt.signal("tree", signal.SIGKILL)
