"""The verdict: from what is known of a run's end to its outcome. Never better than the facts."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from coachman_adapters.failing import tells_limit

from ..facts.again import MOST_SAME

STDERR_CHARACTERS = 400
# The deadlines that end a run, and how that reads.
TIMES = {
    "wall": "the run's time (wall) was over",
    "work": "the time that its agent may be busy (work) was over",
    "turn": "the turn's time (turn) was over",
    "stall": "the agent said nothing for too long (stall)",
    "queue": "no place was free in time (queue)",
}


@frozen
class Facts:
    """What is known when nothing of the run lives any more. Of several turns the last one counts.

    ``ended_by``: agent, cancel, interrupt, one of `TIMES`, keeper_lost, replay_diverged,
    internal_error or start_failed. ``stop_reason`` is the agent's own terminal record, None where
    it never gave one; ``interrupted``: that turn was told to end. ``session_wanted`` was to be
    taken up again.
    """

    ended_by: str
    stop_reason: str | None = None
    error: Mapping[str, Any] | None = None
    exit_code: int | None = None
    signal: int | None = None
    stderr: str = ""
    has_message: bool = False
    has_changes: bool = False
    has_answered: bool = True
    exit_status_decides: bool = False
    denied: int = 0
    interrupted: bool = False
    session: str | None = None
    session_wanted: str | None = None
    check: Mapping[str, Any] | None = None
    over_budget: str = ""
    missing: str = ""
    has_spoken: bool = True


@frozen
class Verdict:
    """An outcome of ``coachman.wire.OUTCOMES``, why, and what the reader should know."""

    outcome: str
    stop_reason: str
    message: str | None = None


Rule = tuple[Callable[[Facts], bool], Callable[[Facts], Verdict]]


def _always(outcome: str, reason: str, message: str | None = None) -> Callable[[Facts], Verdict]:
    return lambda _: Verdict(outcome, reason, message)


def _over_budget(facts: Facts) -> Verdict:
    return Verdict("over_budget", "over_budget", facts.over_budget)


def _limited(facts: Facts) -> Verdict:
    error = facts.error or {}
    told = str(error.get("message") or "the provider's limit was reached")
    return Verdict("limited", "limited", told)


def _agent_error(facts: Facts) -> Verdict:
    error = facts.error or {}
    return Verdict("failed", "error", str(error.get("message") or "the agent reported an error"))


def _died(facts: Facts) -> Verdict:
    how = (
        f"signal {facts.signal}"
        if facts.signal
        else f"exit status {facts.exit_code}"
        if facts.exit_code is not None
        else "an unknown end"
    )
    said = facts.stderr.strip()[-STDERR_CHARACTERS:]
    tail = f"; it last wrote: {said}" if said else ""
    return Verdict("failed", "no_terminal_record", f"the agent ended ({how}) within its turn{tail}")


def _timed_out(facts: Facts) -> Verdict:
    # A program is given no prompt that it would have to answer.
    spoke = facts.has_answered or facts.exit_status_decides
    silent = "" if spoke else "; the agent never answered its prompt"
    return Verdict("timed_out", facts.ended_by, f"{TIMES[facts.ended_by]}{silent}")


def _replay_diverged(facts: Facts) -> Verdict:
    why = (facts.error or {}).get("message")
    tail = f": {why}" if why else ""
    text = f"the agent's dialogue could not be reconstructed{tail}"
    return Verdict("lost", "replay_diverged", text)


def _silent_limit(facts: Facts) -> bool:
    """It never came to anything in its turn, and what it wrote at its end says why."""
    return facts.ended_by == "stall" and not facts.has_spoken and tells_limit(facts.stderr)


def _limited_in_silence(facts: Facts) -> Verdict:
    about = [line for line in facts.stderr.splitlines() if tells_limit(line)][-1]
    last = about.strip()[:STDERR_CHARACTERS]
    text = f"{TIMES['stall']}, and wrote of its provider's limit: {last}"
    return Verdict("limited", "stall", text)


def _start_failed(facts: Facts) -> Verdict:
    return Verdict("failed", "start_failed", str((facts.error or {}).get("message", "")))


def _other_session(facts: Facts) -> bool:
    known = facts.session is not None and facts.session_wanted is not None
    return known and facts.session != facts.session_wanted


def _session_changed(facts: Facts) -> Verdict:
    named = f"it was to be in {facts.session_wanted}, and is in {facts.session}"
    return Verdict("failed", "session_changed", f"the agent is in another session: {named}")


def _check_failed(facts: Facts) -> Verdict:
    check = facts.check or {}
    how = check.get("error") or (
        f"the check was killed by signal {check['signal']}"
        if check.get("signal")
        else f"the check exited with status {check.get('exit')}"
    )
    said = str(check.get("output") or "").strip()[-STDERR_CHARACTERS:]
    last = f": {said.splitlines()[-1]}" if said else ""
    return Verdict("check_failed", "check_failed", f"{how}{last}")


def _missing_artifact(facts: Facts) -> Verdict:
    return Verdict("failed", "missing_artifact", facts.missing)


def _idle(facts: Facts) -> bool:
    return not facts.has_message and not facts.has_changes


# First match wins. A missing terminal record is never success.
RULES: tuple[Rule, ...] = (
    (
        lambda f: f.ended_by == "keeper_lost",
        _always("lost", "keeper_lost", "the keeper of this run was killed, and its agent with it"),
    ),
    (
        lambda f: f.ended_by == "storage_failed",
        _always(
            "lost",
            "storage_failed",
            "the disk failed under this run, so that nobody can say how it ended",
        ),
    ),
    (
        lambda f: f.ended_by == "replay_diverged",
        _replay_diverged,
    ),
    (
        lambda f: f.ended_by == "internal_error",
        _always("failed", "internal_error", "coachman itself failed; its log has the incident"),
    ),
    (lambda f: f.ended_by == "start_failed", _start_failed),
    (
        lambda f: f.ended_by == "output_limit",
        _always(
            "failed",
            "output_limit",
            "the agent wrote more than its output limit; all that it wrote before is kept",
        ),
    ),
    (
        lambda f: f.ended_by == "no_progress",
        _always(
            "failed",
            "no_progress",
            f"{MOST_SAME} attempts in a row left the same tree and the same last message",
        ),
    ),
    (
        lambda f: f.ended_by == "memory_limit",
        _always("failed", "memory_limit", "its processes took more memory than a run may have"),
    ),
    (
        lambda f: f.ended_by == "task_limit",
        _always("failed", "task_limit", "it had more processes and threads than a run may have"),
    ),
    (
        lambda f: f.ended_by == "gate",
        _always(
            "failed",
            "gate",
            "its gate, the one way out of its network, could not be kept open: the keeper's log "
            "says why",
        ),
    ),
    (
        lambda f: f.ended_by == "disk_limit",
        _always("failed", "disk_limit", "its directories grew by more than a run may write"),
    ),
    (_other_session, _session_changed),
    (lambda f: f.ended_by == "cancel", _always("cancelled", "cancelled")),
    (
        lambda f: f.ended_by == "interrupt",
        _always(
            "cancelled",
            "interrupt_unconfirmed",
            "the agent did not end its turn when it was told to, and was ended itself",
        ),
    ),
    (_silent_limit, _limited_in_silence),
    (lambda f: f.ended_by in TIMES, _timed_out),
    (lambda f: bool(f.over_budget), _over_budget),
    (lambda f: f.stop_reason is None, _died),
    (lambda f: f.stop_reason == "limited", _limited),
    (lambda f: f.stop_reason == "error", _agent_error),
    (lambda f: f.stop_reason == "refusal", _always("refused", "refusal", "the model refused")),
    (
        lambda f: f.stop_reason == "max_tokens",
        _always("truncated", "max_tokens", "the model's token limit was reached"),
    ),
    (
        lambda f: f.stop_reason == "max_turn_requests",
        _always(
            "truncated", "max_turn_requests", "the agent's limit of model requests was reached"
        ),
    ),
    (
        lambda f: f.stop_reason == "cancelled" and f.interrupted,
        _always("cancelled", "interrupted"),
    ),
    (
        lambda f: f.denied > 0 and (f.stop_reason == "cancelled" or _idle(f)),
        _always("blocked", "permission_denied", "a permission it needed was denied"),
    ),
    (
        lambda f: f.stop_reason == "cancelled",
        _always("failed", "cancelled_by_agent", "the agent cancelled its own turn"),
    ),
    (lambda f: f.check is not None and f.check.get("exit") != 0, _check_failed),
    (lambda f: bool(f.missing), _missing_artifact),
    (
        lambda f: _idle(f) and not f.exit_status_decides,
        _always("empty", "end_turn", "no message, no change"),
    ),
    (lambda _: True, _always("succeeded", "end_turn")),
)


def decide(facts: Facts) -> Verdict:
    """The verdict of the first rule that matches."""
    return next(verdict(facts) for matches, verdict in RULES if matches(facts))
