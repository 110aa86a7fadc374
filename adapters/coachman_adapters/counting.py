"""Counts of tokens and sums of money as agents tell them, or whatever stands in their place."""

from collections.abc import Mapping
from typing import Any

MAX_COUNT = 2**53
MAX_USD = 1e9
COST_DIGITS = 9


def count(value: Any) -> int:
    """A token count, 0 for what is none."""
    return int(value) if _is_number(value) and 0 <= value < MAX_COUNT else 0


def dollars(value: Any) -> float | None:
    """An amount in dollars, None for what is none."""
    return to_digits(value) if _is_number(value) and 0 <= value < MAX_USD else None


def to_digits(usd: float) -> float:
    """An amount without the dust of its additions."""
    return round(float(usd), COST_DIGITS)


def added(counters: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Counters with those of ``more`` added to them."""
    return {name: counters.get(name, 0) + tokens for name, tokens in more.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
