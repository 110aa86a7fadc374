"""Which deadline expires next: a pure table of facts, without a clock of its own."""

from collections.abc import Mapping

from attrs import field, frozen

WALL_DEFAULT_S = 4 * 3600.0
PERMISSION_DEFAULT_S = 3600.0
PARKED_DEFAULT_S = 8 * 3600.0
# A question whose deadline passed while no daemon lived is not denied unseen.
PERMISSION_GRACE_S = 60.0
# The daemon's own ladder goes first; the keeper ends what no daemon ended.
KEEPER_MARGIN_S = 15.0


@frozen
class Deadline:
    """Something that expires at ``due_s`` (CLOCK_BOOTTIME); ``key`` says which one of many."""

    due_s: float
    which: str
    key: str = ""


@frozen
class Facts:
    """What the deadlines of a run depend on; every time is a CLOCK_BOOTTIME second."""

    state: str
    wall_due_s: float
    permissions_due_s: Mapping[str, float] = field(factory=dict)
    timers_due_s: Mapping[str, float] = field(factory=dict)
    ladder_due_s: float | None = None
    interrupt_due_s: float | None = None
    parked_due_s: float | None = None


def pending(facts: Facts) -> list[Deadline]:
    """Every deadline that runs in this state, the next one first.

    A stopping run has only its ladder left, and the conversation's own timers.
    """
    if facts.state == "ended":
        return []
    found = [Deadline(due, "timer", name) for name, due in facts.timers_due_s.items()]
    if facts.ladder_due_s is not None:
        found.append(Deadline(facts.ladder_due_s, "ladder"))
    if facts.state != "stopping":
        found.append(Deadline(facts.wall_due_s, "wall"))
        if facts.interrupt_due_s is not None:
            found.append(Deadline(facts.interrupt_due_s, "interrupt"))
        if facts.parked_due_s is not None and facts.state == "parked":
            found.append(Deadline(facts.parked_due_s, "parked"))
        found += [
            Deadline(due, "permission", request) for request, due in facts.permissions_due_s.items()
        ]
    return sorted(found, key=lambda deadline: (deadline.due_s, deadline.which, deadline.key))


def permission_due_after_restart_s(due_s: float, now_s: float) -> float:
    """A permission's deadline as a starting daemon sees it: at least the grace is left."""
    return due_s if due_s > now_s else now_s + PERMISSION_GRACE_S
