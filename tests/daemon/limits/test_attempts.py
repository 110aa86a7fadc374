"""What an attempt is told of the session that it works in."""

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve, frozen

from coachmand.runs.attempts.following import Attempts
from coachmand.runs.reading.view import View

GIVEN, TOLD = {"cost_usd": 1.0}, {"cost_usd": 3.0}


@frozen
class Fixed:
    """As much of a record as names its session."""

    session: str | None
    session_counters: dict[str, float] | None


def acting(fixed: Fixed, **seen: Any) -> Any:
    """What the attempt of a run has for its record, once its journal told ``seen``."""
    run: Any = SimpleNamespace(fixed=fixed, view=evolve(View(), **seen))
    return Attempts(run).acting


@pytest.mark.parametrize(
    ("seen", "session", "counters"),
    [
        ({}, "s1", GIVEN),
        ({"resumes": "s1"}, "s1", GIVEN),
        ({"resumes": "s1", "resumed_counters": TOLD}, "s1", TOLD),
        ({"resumes": "s2"}, "s2", None),
        ({"again": {"resumes": True}, "attempt_over": True, "session": "s1"}, "s1", GIVEN),
        (
            {
                "again": {"resumes": True},
                "attempt_over": True,
                "session": "s1",
                "session_counters": TOLD,
            },
            "s1",
            TOLD,
        ),
    ],
)
def test_a_session_goes_with_its_latest_counters(
    seen: dict[str, Any], session: str, counters: dict[str, float] | None
) -> None:
    """Those that the run itself told, else those that it was given with the session, else none."""
    found = acting(Fixed("s1", GIVEN), **seen)

    assert (found.session, found.session_counters) == (session, counters)
