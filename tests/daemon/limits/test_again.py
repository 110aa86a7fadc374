"""The rule of trying again: what is waited for, how long, and where it ends."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from coachmand.runs.facts.again import MOST_S, MOST_WAITS, Facts, Plan, is_stuck, plan, times_same
from coachmand.runs.facts.clock import epoch_ms, reset_ms
from coachmand.runs.reading.view import View

NOW = 1_000_000
HOUR = 3_600_000
LIMITED = {"stop_reason": "limited", "goes_on": True}
SOON = {**LIMITED, "resets_at_ms": NOW + 60_000}
BROKE = {"stop_reason": "error", "transient": True}


def planned(**facts: Any) -> Plan | None:
    """The plan for these facts, with an hour left."""
    return plan(Facts(**{"now_ms": NOW, "wall_ms": NOW + HOUR, **facts}))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (LIMITED, Plan("limit", NOW + 5_000, True)),
        ({**LIMITED, "tries": 1}, Plan("limit", NOW + 20_000, True)),
        ({**LIMITED, "tries": 2}, None),
        ({**LIMITED, "retries": 0}, None),
        ({**LIMITED, "on_limit": "fail"}, None),
        (SOON, Plan("limit", NOW + 61_000, True)),
        (
            {**LIMITED, "resets_at_ms": NOW + 60_000, "retries": 0},
            Plan("limit", NOW + 61_000, True),
        ),
        ({**LIMITED, "resets_at_ms": NOW + HOUR}, None),
        ({**LIMITED, "resets_at_ms": NOW - 50_000}, Plan("limit", NOW, True)),
        ({**LIMITED, "resets_at_ms": NOW, "waits": 2}, Plan("limit", NOW + 16_000, True)),
        ({**LIMITED, "resets_at_ms": NOW, "waits": 9}, Plan("limit", NOW + 300_000, True)),
        ({**LIMITED, "resets_at_ms": NOW, "waits": MOST_WAITS}, None),
        ({"stop_reason": "limited"}, Plan("limit", NOW + 5_000, False)),
        ({"stop_reason": "limited", "spoke": True}, None),
        ({**LIMITED, "spoke": True}, Plan("limit", NOW + 5_000, True)),
        (BROKE, Plan("retry", NOW + 1_000, False)),
        ({**BROKE, "tries": 1}, Plan("retry", NOW + 4_000, False)),
        ({**BROKE, "tries": 2}, None),
        ({**BROKE, "spoke": True}, None),
        ({"stop_reason": "error"}, None),
        ({"stop_reason": "end_turn"}, None),
        ({"stop_reason": "cancelled", "transient": True}, None),
    ],
)
def test_what_follows_from_a_failed_turn(facts: dict[str, Any], expected: Plan | None) -> None:
    """Waiting fits the wall, trying has a cap, and a prompt is not told twice for nothing."""
    assert planned(**facts) == expected


def test_no_wait_between_two_tries_is_without_a_limit() -> None:
    """However many there were, the next is at most five minutes away."""
    found = planned(**LIMITED, tries=500, retries=1000)

    assert found == Plan("limit", NOW + int(MOST_S * 1000), True)


def limited(view: View, did: str) -> None:
    """A turn in which the agent ``did`` one thing before a limit whose end was told."""
    turn = view.turn + 1
    lines: tuple[dict[str, Any], ...] = (
        {"type": "agent.input", "kind": "prompt", "prompt_turn": turn},
        {"type": did, "text": "429", "tool_call_id": "c"},
        {"type": "turn.ended", "turn": turn, "stop_reason": "limited", "resets_at": NOW},
        {"type": "run.state", "to": "waiting", "reason": "limit", "until": {"told": True}},
    )
    for line in lines:
        view.apply({"seq": view.seq + 1, "ts": NOW, "run": "r", **line})


def test_limits_without_work_between_them_have_an_end() -> None:
    """An agent that is refused whatever it is told ends; one that got on begins to count anew."""
    view, waited = View(), 0
    while planned(**LIMITED, resets_at_ms=NOW, waits=view.waits) is not None:
        limited(view, "message.chunk")
        waited += 1
        assert waited <= MOST_WAITS
    limited(view, "tool.call")

    assert (waited, view.waits) == (MOST_WAITS, 1)
    assert view.resets_at == NOW


def told(**members: Any) -> int | None:
    """The moment of a limit's end, as an agent told it."""
    return reset_ms({"at_s": None, "in_s": None, "local": None, **members})


def test_moments_and_spans_are_reckoned() -> None:
    """Seconds of the epoch are a moment; seconds from now need the clock."""
    assert told(at_s=1700.5) == 1_700_500
    assert abs((told(in_s=30) or 0) - epoch_ms() - 30_000) < 5_000


@pytest.mark.parametrize("hours", [-1, 1, 11])
def test_a_time_of_day_is_the_one_that_is_nearest(hours: int) -> None:
    """One that has just passed was meant so; one of tonight may be tomorrow's date."""
    meant = (datetime.now() + timedelta(hours=hours)).replace(second=0, microsecond=0)

    assert told(local=meant.strftime("%H:%M")) == int(meant.timestamp() * 1000)


def test_a_whole_date_is_taken_as_it_is_and_nonsense_is_nothing() -> None:
    """An agent's words are not trusted to be a moment."""
    meant = datetime(2031, 2, 3, 4, 5)

    assert told(local=meant.isoformat(timespec="minutes")) == int(meant.timestamp() * 1000)
    assert told(local="25:61") is None
    assert told(local="2026-13-45T00:00") is None


def test_the_same_three_times_in_a_row_is_no_progress() -> None:
    """Anything else in between begins the count anew."""
    left, times, stuck = None, 0, []
    for now in ("a", "a", "b", "b", "a", "a", "a"):
        times, left = times_same(left, now, times), now
        stuck.append(is_stuck(times))

    assert stuck == [False] * 6 + [True]
