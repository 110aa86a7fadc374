"""The standing decision of a run: allow, ask or deny, each question recorded all the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from .choice import by_policy


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
    chosen = by_policy(options, allow=mode == "allow")
    if chosen is not None:
        return Decision(chosen["id"], chosen["kind"], "selected", by)
    return None if mode == "allow" else Decision(None, None, "denied", by)


def expired(options: Sequence[Mapping[str, Any]]) -> Decision:
    """Nobody answered in time: denied, by what the agent offers for that."""
    chosen = by_policy(options, allow=False)
    by = {"resolver": "deadline"}
    if chosen is None:
        return Decision(None, None, "expired", by)
    return Decision(chosen["id"], chosen["kind"], "expired", by)


def withdrawn(resolver: str) -> Decision:
    """The turn was cancelled or the agent ended: nobody chooses any more."""
    return Decision(None, None, "cancelled", {"resolver": resolver})
