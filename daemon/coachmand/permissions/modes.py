"""The standing decisions of a run: its rules, then its mode; each question is recorded."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from .choice import by_policy
from .rules import ALLOWS, Judgement


@frozen
class Decision:
    """How a question is resolved. ``option`` None: nothing fitting was offered, it is cancelled.

    ``outcome``: selected, denied, expired or cancelled; ``by`` names the resolver.
    """

    option: str | None
    option_kind: str | None
    outcome: str
    by: Mapping[str, Any] = field(factory=dict)
    message: str | None = None

    def members(self) -> dict[str, Any]:
        """The decision's members in the journal."""
        return {
            "option": self.option,
            "option_kind": self.option_kind,
            "outcome": self.outcome,
            "by": dict(self.by),
            **({"message": self.message} if self.message is not None else {}),
        }


def standing(mode: str, options: Sequence[Mapping[str, Any]]) -> Decision | None:
    """What ``mode`` decides by itself, None where a person must."""
    if mode == "ask":
        return None
    by = {"resolver": "policy", "mode": mode}
    return _clear(mode, options, by)


def ruled(judged: Judgement, options: Sequence[Mapping[str, Any]]) -> Decision | None:
    """What a rule decides, None where a person must."""
    return None if judged.decide == "ask" else _clear(judged.decide, options, by_rule(judged))


def by_rule(judged: Judgement) -> dict[str, Any]:
    """The rule, as one that decides something."""
    return {"resolver": "rule", "rule": judged.rule.text, "origin": judged.rule.origin}


def _clear(
    decide: str, options: Sequence[Mapping[str, Any]], by: Mapping[str, Any]
) -> Decision | None:
    """The option that is meant; without a clear one an allow is a question, a deny stays one."""
    chosen = by_policy(options, decide)
    if chosen is not None:
        return Decision(chosen["id"], chosen["kind"], "selected", by)
    return None if decide in ALLOWS else Decision(None, None, "denied", by)


def expired(options: Sequence[Mapping[str, Any]]) -> Decision:
    """Nobody answered in time: denied, by what the agent offers for that."""
    chosen = by_policy(options, "deny")
    by = {"resolver": "deadline"}
    if chosen is None:
        return Decision(None, None, "expired", by)
    return Decision(chosen["id"], chosen["kind"], "expired", by)


def withdrawn(resolver: str) -> Decision:
    """The turn was cancelled or the agent ended: nobody chooses any more."""
    return Decision(None, None, "cancelled", {"resolver": resolver})
