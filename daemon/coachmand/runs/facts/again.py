"""Whether a run tries again after a turn that failed, and when: a pure rule, without a clock."""

from attrs import frozen

# A limit without an end, and an agent that broke: how long to wait the first time, then
# each time so many times as long, up to a cap.
LIMIT_FIRST_S = 5.0
BROKEN_FIRST_S = 1.0
TIMES = 4.0
MOST_S = 300.0
# What is said to be over may not be quite.
AFTER_RESET_S = 1.0
# So many attempts in a row may use tools and leave the same tree and the same last message.
MOST_SAME = 3
# However often a provider says when it will take more, and then does not.
MOST_WAITS = 10

LIMIT = "limit"
RETRY = "retry"
REASONS = (LIMIT, RETRY)


@frozen
class Facts:
    """A turn that is over, and what was asked for this case. Moments are ms of the epoch.

    ``spoke``: it said or did anything. ``goes_on``: its session can be taken up again.
    ``tries`` were made without knowing an end of it, ``waits`` for one that was told; these are
    counted from the last turn that ended otherwise or used a tool.
    """

    stop_reason: str
    now_ms: int
    wall_ms: int
    transient: bool = False
    spoke: bool = False
    goes_on: bool = False
    resets_at_ms: int | None = None
    on_limit: str = "wait"
    retries: int = 2
    tries: int = 0
    waits: int = 0


@frozen
class Plan:
    """Try again ``at_ms``, in the same session where it ``resumes``."""

    reason: str
    at_ms: int
    resumes: bool


def plan(facts: Facts) -> Plan | None:
    """What to do about it; None where the turn's end is the last word."""
    made = _plan(facts)
    return made if made is not None and made.at_ms < facts.wall_ms else None


def times_same(before: str | None, left: str, times: int) -> int:
    """How many attempts in a row left the same, where the last one ``left`` that."""
    return times + 1 if left == before else 1


def is_stuck(times: int) -> bool:
    """Whether another attempt would come to nothing else."""
    return times >= MOST_SAME


def _plan(facts: Facts) -> Plan | None:
    if facts.stop_reason == "limited" and facts.on_limit == "wait":
        return _after_limit(facts)
    if facts.stop_reason != "error" or not facts.transient or facts.spoke:
        return None
    if facts.tries >= facts.retries:
        return None
    return Plan(RETRY, _later(facts, _backoff_s(BROKEN_FIRST_S, facts.tries)), resumes=False)


def _after_limit(facts: Facts) -> Plan | None:
    if facts.spoke and not facts.goes_on:
        return None
    if facts.resets_at_ms is None:
        if facts.tries >= facts.retries:
            return None
        at_ms = _later(facts, _backoff_s(LIMIT_FIRST_S, facts.tries))
    elif facts.waits >= MOST_WAITS:
        return None
    else:
        # Should it have been over by then: rather a little later each time.
        least_ms = _later(facts, _backoff_s(AFTER_RESET_S, facts.waits) if facts.waits else 0)
        at_ms = max(facts.resets_at_ms + int(AFTER_RESET_S * 1000), least_ms)
    return Plan(LIMIT, at_ms, facts.goes_on)


def _later(facts: Facts, by_s: float) -> int:
    return facts.now_ms + int(by_s * 1000)


def _backoff_s(first_s: float, before: int) -> float:
    return min(MOST_S, first_s * TIMES ** min(before, MOST_WAITS))
