"""One fact that the doctor looked at, and how it is: made by the daemon and by the client alike."""

from .wire import EXIT_CONFIG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .results import Diagnosis

    Facts = Mapping[str, Any]
    Command = Sequence[str]


def ok(area: str, name: str, found: str, about: "Facts | None" = None) -> "Diagnosis":
    """It is as it should be; ``about`` has its facts for programs."""
    return {
        "area": area,
        "name": name,
        "status": "ok",
        "found": found,
        "cause": None,
        "remedy": None,
        "next": [],
        "exit": None,
        "detail": dict(about or {}),
    }


def warning(
    area: str,
    name: str,
    cause: str,
    remedy: str,
    about: "Facts | None" = None,
    *,
    next: "Sequence[Command]" = (),
) -> "Diagnosis":
    """Runs start all the same; something of them is weaker or slower, or may fail later."""
    steps = [list(argv) for argv in next]
    amiss = ok(area, name, cause, about)
    return {**amiss, "status": "warning", "cause": cause, "remedy": remedy, "next": steps}


def failed(
    area: str,
    name: str,
    cause: str,
    remedy: str,
    about: "Facts | None" = None,
    *,
    next: "Sequence[Command]" = (),
    exit: int = EXIT_CONFIG,
) -> "Diagnosis":
    """A run that needs it would be refused or fail, with this ``exit`` code of the client."""
    amiss = warning(area, name, cause, remedy, about, next=next)
    return {**amiss, "status": "failed", "exit": exit}
