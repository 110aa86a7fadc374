"""Questions of a model that are answered in words: the options that all of them have."""

from collections.abc import Iterable

from coachman_adapters.acp.permissions import NAME_CHARS
from coachman_adapters.conversation import Option

WRITE_IN = "write_in"
MAX_CHOICES = 16
OTHER = Option(WRITE_IN, "allow_once", "Answer in your own words", requires_message=True)


def choices(labels: Iterable[str]) -> dict[str, str]:
    """The first of the answers that are offered, by the ids of their options."""
    return {f"choice_{n}": label for n, label in enumerate([*labels][:MAX_CHOICES], 1)}


def options(labels: Iterable[str], *, other: bool = True) -> tuple[Option, ...]:
    """An option for each answer that is offered, and with ``other`` one for words of one's own."""
    offered = choices(labels).items()
    found = [Option(id_, "allow_once", label[:NAME_CHARS]) for id_, label in offered]
    return (*found, OTHER) if other else tuple(found)
