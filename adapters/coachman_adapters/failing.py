"""Failed turns that are worth another: the provider's limit was reached, or something broke.

Agents tell of it in their own ways, mostly in words. What they say is only looked at once a turn
has failed; which words mean what stands in tables.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from coachman_adapters.conversation import Reset, TurnEnded

TOO_MANY = 429
# 128 and the number of a signal: the agent was killed, and not by itself.
KILLED = 129
LIMIT_CODES = frozenset({"rate_limit", "usage_limit_reached", "usageLimitExceeded", TOO_MANY})
LIMIT_WORDS = re.compile(
    r"\b429\b|too many requests|rate.?limit|(usage|session|weekly|hour|daily) limit|quota"
    r"|resource.?exhausted",
    re.IGNORECASE,
)
BROKEN_WORDS = re.compile(
    r"\b(ECONN(REFUSED|RESET|ABORTED)|ETIMEDOUT|EPIPE|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH)\b"
    r"|socket hang up|fetch failed|connection (error|refused|reset|closed|timed out|aborted)"
    r"|error sending request|stream disconnected|cannot connect to api",
    re.IGNORECASE,
)
# Members that tell when it ends: in seconds of the epoch, or from now on.
AT_MEMBERS = ("resets_at", "resetsAt", "reset_at")
IN_MEMBERS = ("retry_after", "retryAfter", "retry-after", "retryDelay", "resets_in_seconds")
IN_WORDS = re.compile(
    r"(?:retry|try again|resets?)\s+(?:after|in)\s+(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.IGNORECASE
)
# codex tells it on the machine's own clock, with the day where that is not today.
AT_WORDS = re.compile(
    r"try again at (?:(?P<month>[A-Z][a-z]{2}) (?P<day>\d{1,2})(?:st|nd|rd|th), (?P<year>\d{4}) )?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2}) (?P<half>AM|PM)"
)
MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
MAX_DEPTH = 6
# No moment and no wait is beyond the year 5000.
MAX_S = 1e11


def failed(error: Mapping[str, Any] | None, resets: Reset | None = None) -> TurnEnded:
    """The end of a turn that failed with ``error`` ({message, code?, data?})."""
    told = error or {}
    if resets is not None or _is_limit(told):
        return TurnEnded("limited", error, resets=resets or _resets(told))
    return TurnEnded("error", error, transient=_is_broken(told))


def tells_limit(words: str) -> bool:
    """Whether what an agent wrote in words is about a provider's limit."""
    return bool(LIMIT_WORDS.search(words))


def at(seconds: Any) -> Reset | None:
    """The end of a limit in seconds of the epoch; None for what is no moment."""
    return Reset(at_s=float(seconds)) if _is_number(seconds) and 0 < seconds < MAX_S else None


def _is_limit(error: Mapping[str, Any]) -> bool:
    named = {value for value in _values(error) if isinstance(value, str | int)}
    return bool(named & LIMIT_CODES) or bool(LIMIT_WORDS.search(str(error.get("message") or "")))


def _is_broken(error: Mapping[str, Any]) -> bool:
    data = error.get("data")
    ended = data if isinstance(data, Mapping) and error.get("code") == "agent_exited" else {}
    code = ended.get("exit_code") or 0
    killed = ended.get("signal") is not None or (_is_number(code) and code >= KILLED)
    return killed or bool(BROKEN_WORDS.search(str(error.get("message") or "")))


def _resets(error: Mapping[str, Any]) -> Reset | None:
    """When it ends, in the first form that tells it."""
    for name, value in _members(error):
        if name in AT_MEMBERS and (found := at(value)) is not None:
            return found
        if name in IN_MEMBERS and (after_s := _seconds(value)) is not None:
            return Reset(in_s=after_s)
    message = str(error.get("message") or "")
    words = IN_WORDS.search(message)
    after_s = _span_s(words) if words else None
    return _local(message) if after_s is None else Reset(in_s=after_s)


def _local(message: str) -> Reset | None:
    found = AT_WORDS.search(message)
    if found is None:
        return None
    hour = int(found["hour"]) % 12 + (12 if found["half"] == "PM" else 0)
    time = f"{hour:02}:{found['minute']}"
    if found["month"] is None:
        return Reset(local=time)
    month = MONTHS.find(found["month"]) // 3 + 1
    return Reset(local=f"{found['year']}-{month:02}-{int(found['day']):02}T{time}")


def _seconds(value: Any) -> float | None:
    """Seconds of a number or of "5s"; None for anything else."""
    if _is_number(value):
        return float(value) if 0 <= value < MAX_S else None
    match = SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    return _span_s(match) if match else None


def _span_s(match: re.Match[str]) -> float | None:
    """A number and its unit in seconds."""
    seconds = float(match[1]) * UNIT_S[(match[2] or "s").lower()]
    return seconds if seconds < MAX_S else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _members(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every member of an object and of those in it."""
    items = value.items() if isinstance(value, Mapping) else []
    inner = [*(each for _, each in items), *(value if isinstance(value, list) else [])]
    yield from ((str(name), each) for name, each in items)
    if depth < MAX_DEPTH:
        for each in inner:
            yield from _members(each, depth + 1)


def _values(error: Mapping[str, Any]) -> Iterator[Any]:
    return (value for _, value in _members(error))
