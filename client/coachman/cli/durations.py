"""Durations and times as people type them."""

import time

from ..errors import UsageError

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SAMPLES = "90, 90s, 30m, 1h30m or 2d"


def seconds(text: str, what: str = "read the duration") -> float:
    """``90``, ``90s``, ``30m``, ``1h30m``, ``2d`` in seconds; UsageError otherwise."""
    total, number, last_unit = 0, "", 1 << 30
    for character in text:
        if character.isascii() and character.isdigit():
            number += character
            continue
        unit = _UNIT_S.get(character)
        if unit is None or not number or unit >= last_unit:
            raise _not_a_duration(text, what)
        total += int(number) * unit
        number, last_unit = "", unit
    if number and last_unit == 1 << 30:
        total = int(number)
    elif number or not text:
        raise _not_a_duration(text, what)
    return float(total)


def some_seconds(text: str, what: str) -> float:
    """As ``seconds``, and more than none."""
    duration_s = seconds(text, what)
    if not duration_s:
        raise UsageError(f"cannot {what}: {text!r} leaves no time", hint=f"write {_SAMPLES}")
    return duration_s


def _not_a_duration(text: str, what: str) -> UsageError:
    return UsageError(f"cannot {what}: {text!r} is not a duration", hint=f"write {_SAMPLES}")


def spoken(duration_s: float) -> str:
    """A duration in its two largest units: ``4m12s``, ``1h30m``, ``2d3h``, ``0.4s``."""
    if duration_s < 10:
        return f"{max(0.0, duration_s):.1f}s".replace(".0s", "s")
    words: list[str] = []
    left = round(duration_s)
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _UNIT_S[unit])
        if count or (words and len(words) < 2):
            words.append(f"{count}{unit}" if count else "")
        if len(words) == 2:
            break
    return "".join(words)


def coarse(duration_s: float) -> str:
    """A duration in its largest unit, for tables: ``12m``."""
    whole = max(0, int(duration_s))
    for unit in ("d", "h", "m"):
        if whole >= _UNIT_S[unit]:
            return f"{whole // _UNIT_S[unit]}{unit}"
    return f"{whole}s"


def since_ms(text: str) -> int:
    """A time as milliseconds since the epoch: ``30m`` or ``30m ago``, or ISO 8601 (else local)."""
    try:
        return int((time.time() - seconds(text.removesuffix("ago").rstrip())) * 1000)
    except UsageError:
        pass
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise UsageError(
            f"cannot read --since: {text!r} is neither a duration nor a time",
            hint=f"write {_SAMPLES}, or 2026-11-29T22:04",
        ) from None


def clock(at_ms: int) -> str:
    """A moment as local date and time of day."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_ms / 1000))
