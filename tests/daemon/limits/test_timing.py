"""The time of one run: a machine that slept is noticed once, and silence is counted from words."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from coachmand.journal.lines import Entry
from coachmand.runs.control import timing
from coachmand.runs.control.timing import Timing
from coachmand.runs.facts.clock import Moment, asleep_s, boottime_s, stamp
from coachmand.runs.reading.view import View

BOOT = "b1"


class Run:
    """As much of a run as its time depends on; ``lines`` are what it journaled."""

    def __init__(self, state: str = "active", boot: str = BOOT) -> None:
        self.boot = boot
        self.view = View()
        self.lines: list[str] = []
        self.fixed = SimpleNamespace(
            handle="abcde",
            wall=Moment.now(BOOT, 1000.0),
            wall_s=1000.0,
            work_s=None,
            stall_s=60.0,
            turn_s=None,
            queue_s=None,
            parked_s=100.0,
            permission_s=10.0,
        )
        self.attempt = SimpleNamespace(behind=False, timers_due_s={})
        self.attempts = SimpleNamespace(due_s=None)
        self.end = SimpleNamespace(exit=None)
        self.ladder = SimpleNamespace(due_s=None)
        self.questions = SimpleNamespace(due_s={})
        self.asking = SimpleNamespace(limits=dict)
        self.lending = SimpleNamespace(due_s=None)
        self.turns = SimpleNamespace(interrupt_due_s=None, parked_due_s=None)
        self.tell("run.state", **{"from": "queued", "to": state, "reason": None})

    def tell(self, type_: str, **members: Any) -> None:
        event = {"type": type_, "seq": self.view.seq + 1, "ts": 0, "clock": stamp(BOOT), **members}
        self.view.apply(event)

    async def record(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.lines.append(entry.type)
            self.tell(entry.type, **entry.members)


def timed(run: Run) -> Timing:
    """Its time."""
    return Timing(run)  # type: ignore[arg-type]


def test_sleep_is_told_once_and_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal gets a line, and what was heard last moves on with the clock."""
    run = Run()
    time = timed(run)
    time.heard_s = 50.0
    slept = asleep_s() + 900
    monkeypatch.setattr(timing, "asleep_s", lambda: slept)
    monkeypatch.setattr(
        timing, "stamp", lambda boot: {"boot": boot, "boottime_s": 0.0, "asleep_s": slept}
    )
    trio.run(time.notice_sleep)
    trio.run(time.notice_sleep)

    assert run.lines == ["host.suspended"]
    assert time.heard_s == pytest.approx(950.0, abs=1.0)


@pytest.mark.parametrize("run", [Run(boot="b2"), Run("stopping")], ids=["reboot", "awake"])
def test_no_sleep_is_made_up(run: Run) -> None:
    """After a reboot nobody knows; and the two clocks are never read at the same instant."""
    trio.run(timed(run).notice_sleep)

    assert run.lines == []


def test_silence_counts_from_the_last_word_or_the_turns_beginning() -> None:
    """Whichever came later."""
    run = Run()
    run.tell("agent.input", kind="prompt", at=0, prompt_turn=1, prompt=1)
    run.tell("turn.started", turn=1)
    time, now_s = timed(run), boottime_s()
    at_start = time.due_s
    time.heard_s = now_s + 30

    assert at_start is not None
    assert time.due_s is not None
    # It is warned of a tenth before.
    assert at_start - now_s == pytest.approx(54.0, abs=1.0)
    assert time.due_s - now_s == pytest.approx(84.0, abs=1.0)


def test_the_deadlines_of_a_state_are_shown_and_silence_is_none() -> None:
    """A moment that moves with every word would mislead."""
    assert set(timed(Run()).ends_at_ms()) == {"wall"}
    assert set(timed(Run("parked")).ends_at_ms()) == {"wall"}
