"""The table of deadlines: what is due next, in which state."""

import json
from typing import Any

import pytest

from coachmand.runs.facts.clock import Moment, Stopwatch
from coachmand.runs.facts.deadlines import RUNS_IN, Facts, Limit, pending
from coachmand.runs.reading.view import View

LIMITS = {
    "turn": Limit(60.0, 10.0),
    "stall": Limit(61.0, 10.0),
    "queue": Limit(62.0, 10.0),
    "parked": Limit(63.0, 10.0),
    "work": Limit(64.0, 10.0),
    "wall": Limit(65.0, 10.0),
}
EVERYTHING: dict[str, Any] = {
    "limits": LIMITS,
    "permissions": {"p2": Limit(30.0, 10.0), "p1": Limit(20.0, 10.0)},
    "timers_due_s": {"settle": 10.0},
    "ladder_due_s": 5.0,
    "interrupt_due_s": 40.0,
    "turn_runs": True,
}
WARNED = (*LIMITS, "permission p1", "permission p2")
IN_EVERY_STATE = ["ladder", "timer settle"]
WHILE_IT_IS_WANTED = ["permission p1", "permission p2", "interrupt"]
BOOT = "b1"


def names(state: str, **facts: Any) -> list[str]:
    """What is to come, the next one first; warnings have a question mark."""
    found = pending(Facts(state, **{**EVERYTHING, "warned": WARNED, **facts}))
    return [d.name + "?" * d.warns for d in found]


@pytest.mark.parametrize(
    ("state", "limits"),
    [
        ("queued", ["queue", "wall"]),
        ("preparing", ["work", "wall"]),
        ("active", ["turn", "stall", "work", "wall"]),
        ("waiting", ["wall"]),
        ("parked", ["parked", "wall"]),
    ],
)
def test_what_is_due_in_a_state_and_in_which_order(state: str, limits: list[str]) -> None:
    """Waiting and parking cost neither work nor turn; the wall runs wherever a run lives."""
    assert names(state) == [*IN_EVERY_STATE, *WHILE_IT_IS_WANTED, *limits]


def test_a_run_on_its_way_out_has_its_ladder_and_an_ended_one_nothing() -> None:
    """No deadline overtakes the end, and none outlives it."""
    assert names("stopping") == IN_EVERY_STATE
    assert names("ended") == []


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ["turn", "stall"]),
        ({"in_tool": True}, ["turn"]),
        ({"turn_runs": False}, []),
        ({"turn_runs": False, "in_tool": True}, []),
    ],
)
def test_silence_counts_in_a_turn_and_outside_of_tools(
    facts: dict[str, bool], expected: list[str]
) -> None:
    """An agent that uses a tool, or was asked nothing, need not say anything."""
    only = {"limits": {name: LIMITS[name] for name in ("turn", "stall")}, "permissions": {}}

    assert names("active", **only, **facts, interrupt_due_s=None)[2:] == expected


def test_everybody_is_warned_once_before_a_limit_is_over() -> None:
    """A tenth of it before, and never more than five minutes; what was told is not told again."""
    limits = {"wall": Limit(10_000.0, 10_000.0), "work": Limit(100.0, 50.0)}
    facts = Facts("active", limits)

    assert [(d.name, d.warns, d.due_s) for d in pending(facts)] == [
        ("work", True, 95.0),
        ("work", False, 100.0),
        ("wall", True, 9_700.0),
        ("wall", False, 10_000.0),
    ]
    told = pending(Facts("active", limits, warned=("work",)))
    assert [d.warns for d in told if d.which == "work"] == [False]


def test_every_deadline_has_its_states() -> None:
    """A limit that the table does not know would never be enforced."""
    assert {*LIMITS, "permission", "question", "credentials", "interrupt"} == set(RUNS_IN)


# --- what is counted -------------------------------------------------------------------


def moment(at_s: float, boot: str = BOOT) -> Moment:
    """A moment whose two clocks agree."""
    return Moment(boot, at_s, int(at_s * 1000))


def test_a_stopwatch_counts_only_while_it_runs() -> None:
    """What was spent before a pause is spent; the pause itself is not."""
    watch = Stopwatch()
    watch.run(moment(10))
    watch.pause(moment(14))

    assert watch.due_boottime_s(BOOT, 10) is None
    watch.run(moment(100))
    assert watch.due_boottime_s(BOOT, 10) == 106
    watch.skip(50)
    assert watch.due_boottime_s(BOOT, 10) == 156


def test_another_boot_goes_by_the_wall_clock() -> None:
    """The boot clock began anew; seconds of 1970 are what is left."""
    assert moment(30, "b2").s_since(moment(10)) == 20
    assert moment(5, "b2").s_since(moment(10)) == 0


class Told:
    """A view that is told lines at moments."""

    def __init__(self) -> None:
        self.view = View()

    def say(self, type_: str, at_s: float = 0.0, **members: Any) -> None:
        seq = self.view.seq + 1
        clock = {"boot": BOOT, "boottime_s": at_s, "asleep_s": 0.0}
        envelope = {"type": type_, "seq": seq, "ts": int(at_s * 1000), "clock": clock}
        self.view.apply({**envelope, **members})

    def enter(self, state: str, at_s: float) -> None:
        self.say("run.state", at_s, **{"from": self.view.state, "to": state, "reason": None})

    def begin_turn(self, at_s: float, turn: int = 1) -> None:
        self.say("agent.input", at_s, kind="prompt", at=0, prompt_turn=turn, prompt=turn)
        self.say("turn.started", at_s, turn=turn)


def test_neither_queueing_nor_waiting_nor_parking_is_work() -> None:
    """Of a run's time so much is counted as it was being prepared or busy."""
    run = Told()
    run.enter("preparing", 10)
    run.enter("active", 11)
    run.begin_turn(11)
    run.enter("waiting", 15)
    run.enter("active", 30)
    run.say("turn.ended", 32, turn=1, stop_reason="end_turn")
    run.enter("parked", 32)
    run.enter("active", 50)
    run.begin_turn(50, 2)

    assert run.view.working == Stopwatch(7.0, moment(50))
    assert run.view.in_turn == Stopwatch(0.0, moment(50))


def test_a_permission_stops_the_turns_time_as_well() -> None:
    """Its limit is for the agent, not for whoever has to answer."""
    run = Told()
    run.enter("active", 1)
    run.begin_turn(2)
    run.enter("waiting", 5)
    run.enter("active", 100)

    assert run.view.in_turn == Stopwatch(3.0, moment(100))


def test_sleep_counts_for_nothing() -> None:
    """A suspended machine works on nothing."""
    run = Told()
    run.enter("active", 1)
    run.begin_turn(2)
    run.say("host.suspended", 1000, seconds=900)

    assert run.view.working.since == moment(901)
    assert run.view.in_turn.since == moment(902)


def test_tools_are_open_until_they_end_or_their_turn_does() -> None:
    """Several at once; an update that tells no end leaves one open."""
    run = Told()
    run.begin_turn(1)
    run.say("tool.call", tool_call_id="a", status="pending")
    run.say("tool.call", tool_call_id="b", status="in_progress")
    run.say("tool.call_update", tool_call_id="a", status="in_progress")
    run.say("tool.call_update", tool_call_id="b", status="failed")
    assert run.view.open_tools == {"a"}
    assert View.restore(json.loads(json.dumps(run.view.snapshot()))).open_tools == {"a"}
    run.say("turn.ended", turn=1, stop_reason="cancelled")
    assert run.view.open_tools == set()


def test_a_warning_of_silence_is_forgotten_once_the_agent_speaks() -> None:
    """The next silence is warned of again, the wall only once."""
    run = Told()
    run.say("deadline.warned", which="stall", deadline=1)
    run.say("deadline.warned", which="wall", deadline=2)
    run.say("agent.message_chunk", text="x", n=1)

    assert run.view.warned == ["wall"]
