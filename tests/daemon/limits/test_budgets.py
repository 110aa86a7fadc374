"""The limits of what a run may use up, compared with what it used."""

import pytest

from coachmand.runs.control.budgets import Exceeded, exceeded
from coachmand.runs.facts.grants import Limits


@pytest.mark.parametrize(
    ("limits", "tokens", "usd", "expected"),
    [
        (Limits(), 10**9, 10.0**6, None),
        (Limits(tokens=100), 100, None, None),
        (Limits(tokens=100), 101, None, Exceeded("tokens", 100, 101)),
        (Limits(tokens=100), None, 5.0, None),
        (Limits(cost_usd=1.0), 10**9, None, None),
        (Limits(cost_usd=1.0), 10**9, 1.0, None),
        (Limits(cost_usd=1.0), None, 1.01, Exceeded("cost_usd", 1.0, 1.01)),
        (Limits(tokens=1, cost_usd=1.0), 2, 2.0, Exceeded("tokens", 1, 2)),
    ],
)
def test_what_is_over_a_limit(
    limits: Limits, tokens: int | None, usd: float | None, expected: Exceeded | None
) -> None:
    """A limit may be reached, not passed; what is not known passes none."""
    assert exceeded(limits, tokens, usd) == expected


def test_it_reads_as_used_of_allowed() -> None:
    """Numbers that people can compare."""
    assert Exceeded("tokens", 2000, 2011).words() == "it used 2,011 tokens of 2,000"
    assert Exceeded("cost_usd", 0.5, 0.61).words() == "it cost $0.6100 of $0.5000"
    handed_out = Exceeded("delegate.tokens", 20, 21)
    assert handed_out.words() == "the runs below its parent used 21 tokens of 20"
