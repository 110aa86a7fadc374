"""The verdict's rules: the first that matches decides, and none is better than the facts."""

import pytest

from coachmand.runs.ending.verdict import Facts, decide

DONE = {"ended_by": "agent", "stop_reason": "end_turn", "has_message": True}


@pytest.mark.parametrize(
    ("facts", "outcome", "stop_reason"),
    [
        (DONE, "succeeded", "end_turn"),
        ({**DONE, "session": "a", "session_wanted": "a"}, "succeeded", "end_turn"),
        ({**DONE, "session_wanted": "a"}, "succeeded", "end_turn"),
        ({**DONE, "session": "b", "session_wanted": "a"}, "failed", "session_changed"),
        (
            {**DONE, "ended_by": "cancel", "session": "b", "session_wanted": "a"},
            "failed",
            "session_changed",
        ),
        (
            {**DONE, "ended_by": "keeper_lost", "session": "b", "session_wanted": "a"},
            "lost",
            "keeper_lost",
        ),
        ({**DONE, "stop_reason": "cancelled", "interrupted": True}, "cancelled", "interrupted"),
        (
            {**DONE, "stop_reason": "cancelled", "interrupted": True, "denied": 1},
            "cancelled",
            "interrupted",
        ),
        ({**DONE, "stop_reason": "cancelled"}, "failed", "cancelled_by_agent"),
        ({**DONE, "interrupted": True}, "succeeded", "end_turn"),
        ({**DONE, "ended_by": "interrupt"}, "cancelled", "interrupt_unconfirmed"),
        ({**DONE, "ended_by": "wall"}, "timed_out", "wall"),
        ({"ended_by": "agent"}, "failed", "no_terminal_record"),
        ({**DONE, "ended_by": "gate"}, "failed", "gate"),
        ({**DONE, "has_message": False}, "empty", "end_turn"),
        ({**DONE, "has_message": False, "denied": 1}, "blocked", "permission_denied"),
        ({"ended_by": "agent", "exit_code": 0}, "failed", "no_terminal_record"),
        (
            {"ended_by": "agent", "exit_code": 0, "has_message": True},
            "failed",
            "no_terminal_record",
        ),
        (
            {"ended_by": "agent", "exit_code": 0, "has_changes": True},
            "failed",
            "no_terminal_record",
        ),
        ({**DONE, "stop_reason": "error", "exit_code": 0}, "failed", "error"),
        ({**DONE, "stop_reason": "limited"}, "limited", "limited"),
        ({**DONE, "stop_reason": "limited", "ended_by": "cancel"}, "cancelled", "cancelled"),
        ({**DONE, "over_budget": "it used 2 tokens of 1"}, "over_budget", "over_budget"),
        ({**DONE, "over_budget": "x", "ended_by": "wall"}, "timed_out", "wall"),
        ({**DONE, "over_budget": "x", "check": {"exit": 1}}, "over_budget", "over_budget"),
        ({**DONE, "ended_by": "work"}, "timed_out", "work"),
        ({**DONE, "ended_by": "stall"}, "timed_out", "stall"),
        ({**DONE, "ended_by": "turn"}, "timed_out", "turn"),
        ({"ended_by": "queue"}, "timed_out", "queue"),
        ({**DONE, "check": {"exit": 0}}, "succeeded", "end_turn"),
        ({**DONE, "check": {"exit": 1}}, "check_failed", "check_failed"),
        ({**DONE, "check": {"exit": None, "error": "x"}}, "check_failed", "check_failed"),
        ({**DONE, "check": {"exit": 1}, "has_message": False}, "check_failed", "check_failed"),
        ({**DONE, "check": {"exit": 0}, "has_message": False}, "empty", "end_turn"),
        ({**DONE, "check": {"exit": 1}, "ended_by": "cancel"}, "cancelled", "cancelled"),
    ],
)
def test_facts_lead_to_an_outcome(facts: dict[str, object], outcome: str, stop_reason: str) -> None:
    """Each rule in its place: another session before a cancel, an interrupt before a denial."""
    found = decide(Facts(**facts))

    assert (found.outcome, found.stop_reason) == (outcome, stop_reason)


def test_another_session_is_named_beside_the_one_that_was_wanted() -> None:
    """Whoever reads it can look for both."""
    found = decide(Facts(**DONE, session="s-2", session_wanted="s-1"))

    assert found.message is not None
    assert "s-1" in found.message
    assert "s-2" in found.message


@pytest.mark.parametrize(("program", "told"), [(False, True), (True, False)])
def test_only_an_agent_can_leave_its_prompt_unanswered(program: bool, told: bool) -> None:
    """A program at its wall is not blamed for a prompt that it never had."""
    facts = Facts(ended_by="wall", has_answered=False, exit_status_decides=program)
    message = decide(facts).message

    assert message is not None
    assert ("never answered its prompt" in message) is told
