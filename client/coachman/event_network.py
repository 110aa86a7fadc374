"""The members of events about what a run's gate decided."""

from typing import NotRequired, TypedDict


class NetworkDecided(TypedDict):
    """The gate allowed a destination, or denied a host, for the first time in the run.

    What is allowed and could not be reached has the reason ``unreachable``, and ``why`` says more.
    """

    host: str | None
    port: int | None
    allowed: bool
    reason: NotRequired[str]
    why: NotRequired[str]


class DeniedHost(TypedDict):
    """What was denied, why, and how often; without a host the request named none."""

    host: str | None
    port: int | None
    reason: str
    count: int


class NetworkCounted(TypedDict):
    """What the gate denied in an attempt that is over, and how often."""

    denied: list[DeniedHost]
