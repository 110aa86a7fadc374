"""Durations and times as people write and read them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coachman import UsageError
from coachman.cli.durations import clock, coarse, seconds, since_ms, some_seconds, spoken

DAY_S = 86_400


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172_800), ("0", 0)],
)
def test_the_forms_of_a_duration_are_read(text: str, value: float) -> None:
    """A bare number is seconds; units follow their number, largest first."""
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "h", "1x", "30m1h", "1h30", "-5", "1.5h", "1m1m", "٣s"])
def test_anything_else_is_refused(text: str) -> None:
    """What is no duration is refused with samples of what is."""
    with pytest.raises(UsageError, match="is not a duration") as caught:
        seconds(text)

    assert "1h30m" in str(caught.value.hint)


@given(st.integers(10, 60 * DAY_S))
def test_a_spoken_duration_is_read_back_within_its_smallest_unit(duration_s: int) -> None:
    """What is printed is a duration again, and off by less than the unit it left out."""
    off = abs(seconds(spoken(duration_s)) - duration_s)

    assert off < (1 if duration_s < 3600 else 60 if duration_s < DAY_S else 3600)


@pytest.mark.parametrize(
    ("duration_s", "words"), [(0.42, "0.4s"), (252, "4m12s"), (3600, "1h"), (5400, "1h30m")]
)
def test_durations_are_spoken_in_two_units(duration_s: float, words: str) -> None:
    """The two largest units are said, and tenths below ten seconds."""
    assert spoken(duration_s) == words


def test_tables_have_the_largest_unit_only() -> None:
    """In a table twelve minutes and some are twelve minutes."""
    assert [coarse(s) for s in (3, 750, 7300, 200_000)] == ["3s", "12m", "2h", "2d"]


def test_since_is_a_duration_ago_or_a_time() -> None:
    """A duration counts back from now; an ISO time is itself."""
    assert abs(since_ms("30m") - (time.time() - 1800) * 1000) < 60_000
    assert abs(since_ms("1h30m ago") - (time.time() - 5400) * 1000) < 60_000
    assert since_ms("2026-11-29T22:04+00:00") == 1_795_989_840_000
    for neither in ("2026-99-99", "yesterday", "", "ago", "2026-11-29T22:04 ago"):
        with pytest.raises(UsageError, match="neither a duration nor a time"):
            since_ms(neither)


def test_no_time_at_all_is_refused_where_some_is_needed() -> None:
    """A run that may last no time would be over before it began."""
    assert some_seconds("1", "run") == 1
    with pytest.raises(UsageError, match="cannot run --timeout: '0s' leaves no time"):
        some_seconds("0s", "run --timeout")


def test_a_moment_has_its_date_and_its_seconds() -> None:
    """A run's times are told apart on any day and within a minute."""
    assert clock(0) == time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(0))
