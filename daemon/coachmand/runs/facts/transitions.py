"""The states of a run and what may follow what. ARCHITECTURE.md draws this table."""

TRANSITIONS: dict[str, frozenset[str]] = {
    "queued": frozenset({"preparing", "waiting", "stopping", "ended"}),
    "preparing": frozenset({"active", "waiting", "stopping", "ended"}),
    "active": frozenset({"waiting", "parked", "stopping", "ended"}),
    "waiting": frozenset({"active", "preparing", "queued", "waiting", "stopping", "ended"}),
    "parked": frozenset({"active", "stopping", "ended"}),
    "checking": frozenset({"stopping"}),
    "stopping": frozenset({"checking", "waiting", "stopping", "ended"}),
    "ended": frozenset(),
}


class TransitionError(Exception):
    """The table has no such transition: a bug, never a user's doing."""


def check(current: str, to: str) -> None:
    """Raise `TransitionError` unless ``to`` may follow ``current``."""
    if to not in TRANSITIONS[current]:
        raise TransitionError(f"internal error: a run cannot go from {current} to {to}")
