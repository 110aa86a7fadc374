"""What a run may use up, and what it may hand down: how deep, to how many, to which agents."""

from typing import Any

from attrs import field, frozen
from attrs.validators import optional

from ...rpc.params import must

MOST_DEPTH = 8
MOST_CHILDREN = 64


def _from_0_to(most: int) -> Any:
    return must(f"0 to {most}", lambda number: 0 <= number <= most)


_ABOVE_0 = must("a number above 0", lambda limit: limit > 0)


@frozen
class Limits:
    """How many tokens and dollars a run may use, with all below it; None: as many as it likes."""

    tokens: int | None = field(default=None, validator=optional(_ABOVE_0))
    cost_usd: float | None = field(default=None, validator=optional(_ABOVE_0))


@frozen
class Delegate:
    """A run's own socket, and what it may start over it.

    ``depth`` levels below it, ``children`` at once on all of them together, in all for so many
    ``tokens`` and dollars. ``agents`` are those that it may start beside its own.
    """

    depth: int = field(validator=_from_0_to(MOST_DEPTH))
    children: int = field(validator=_from_0_to(MOST_CHILDREN))
    tokens: int | None = field(default=None, validator=optional(_ABOVE_0))
    cost_usd: float | None = field(default=None, validator=optional(_ABOVE_0))
    agents: tuple[str, ...] = ()


# A child that may start nothing can still ask its parent.
NOTHING = Delegate(0, 0)
