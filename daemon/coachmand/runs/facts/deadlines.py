"""Which deadline is next: a pure table of facts, without a clock of its own."""

from collections.abc import Collection, Iterator, Mapping

from attrs import field, frozen

PARKED_DEFAULT_S = 8 * 3600.0
# A question whose deadline passed while no daemon lived is not denied unseen.
PERMISSION_GRACE_S = 60.0
# The daemon's own ladder goes first; the keeper ends what no daemon ended.
KEEPER_MARGIN_S = 15.0
# Somebody is warned when this part of a limit is left, and never earlier than so many seconds.
WARNED_PART = 0.1
WARNED_MOST_S = 300.0

WORKING = frozenset({"preparing", "active"})
CHECK_DEFAULT_S = 1800.0
LIVING = frozenset({"queued", "preparing", "active", "waiting", "parked"})
# In which states a deadline runs. A stopping run has only its ladder and its agent's own timers.
RUNS_IN: Mapping[str, frozenset[str]] = {
    "wall": LIVING | {"checking"},
    "work": WORKING,
    "stall": frozenset({"active"}),
    "turn": frozenset({"active"}),
    "queue": frozenset({"queued"}),
    "parked": frozenset({"parked"}),
    "permission": LIVING,
    "question": LIVING,
    "credentials": frozenset({"waiting"}),
    "interrupt": LIVING,
}
# What a deadline needs besides its state.
IN_A_TURN = frozenset({"stall", "turn"})
OUTSIDE_OF_TOOLS = frozenset({"stall"})


@frozen
class Limit:
    """A limit of ``limit_s`` seconds that is over at ``due_s`` (CLOCK_BOOTTIME)."""

    due_s: float
    limit_s: float

    @property
    def warn_s(self) -> float:
        """When somebody is warned of it."""
        return self.due_s - min(self.limit_s * WARNED_PART, WARNED_MOST_S)


@frozen
class Deadline:
    """What is due at ``due_s``; ``key`` says which one of many. ``warns``: it is only near."""

    due_s: float
    which: str
    key: str = ""
    warns: bool = False

    @property
    def name(self) -> str:
        """What tells it from all others of its run."""
        return f"{self.which} {self.key}".strip()


@frozen
class Facts:
    """What the deadlines of a run depend on. ``limits`` are by name, others by request.

    Every time is a CLOCK_BOOTTIME second; ``warned`` has the names of deadlines told already.
    """

    state: str
    limits: Mapping[str, Limit]
    permissions: Mapping[str, Limit] = field(factory=dict)
    questions: Mapping[str, Limit] = field(factory=dict)
    timers_due_s: Mapping[str, float] = field(factory=dict)
    ladder_due_s: float | None = None
    interrupt_due_s: float | None = None
    turn_runs: bool = False
    in_tool: bool = False
    again_due_s: float | None = None
    warned: Collection[str] = ()


def pending(facts: Facts) -> list[Deadline]:
    """Everything that is still to come in this state, the next one first."""
    if facts.state == "ended":
        return []
    found = [Deadline(due, "timer", name) for name, due in facts.timers_due_s.items()]
    if facts.ladder_due_s is not None:
        found.append(Deadline(facts.ladder_due_s, "ladder"))
    if facts.again_due_s is not None and facts.state == "waiting":
        found.append(Deadline(facts.again_due_s, "again"))
    if facts.interrupt_due_s is not None and facts.state in RUNS_IN["interrupt"]:
        found.append(Deadline(facts.interrupt_due_s, "interrupt"))
    found += _limited(facts)
    return sorted(found, key=lambda deadline: (deadline.due_s, deadline.which, deadline.key))


def _limited(facts: Facts) -> Iterator[Deadline]:
    given = [(which, "", limit) for which, limit in facts.limits.items()]
    given += [("permission", request, limit) for request, limit in facts.permissions.items()]
    given += [("question", request, limit) for request, limit in facts.questions.items()]
    for which, key, limit in given:
        if not _runs(facts, which):
            continue
        end = Deadline(limit.due_s, which, key)
        yield end
        if end.name not in facts.warned:
            yield Deadline(limit.warn_s, which, key, warns=True)


def _runs(facts: Facts, which: str) -> bool:
    if facts.state not in RUNS_IN[which]:
        return False
    if which in IN_A_TURN and not facts.turn_runs:
        return False
    return not (which in OUTSIDE_OF_TOOLS and facts.in_tool)


def permission_due_after_restart_s(due_s: float, now_s: float) -> float:
    """A permission's deadline as a starting daemon sees it: at least the grace is left."""
    return due_s if due_s > now_s else now_s + PERMISSION_GRACE_S
