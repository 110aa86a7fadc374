"""How a run is brought to its end: politely first, each rung with a limit."""

from attrs import frozen

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
# Past the last rung the tree survived its own SIGKILL: the keeper is asked no more.
RUNGS = (CANCEL, CLOSE_STDIN, TERM, KILL)


def after(rung: Rung | None) -> Rung | None:
    """The rung above, the first one for None, None past the last."""
    if rung is None:
        return RUNGS[0]
    place = RUNGS.index(rung) + 1
    return RUNGS[place] if place < len(RUNGS) else None
