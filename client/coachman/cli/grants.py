"""What a run may start itself, as it is written: ``depth=2,children=4``."""

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FORM = "write depth=2,children=4, and after it tokens=N, cost=USD, agents=A+B as you like"


def _agents(text: str) -> list[str]:
    return [name for name in text.split("+") if name]


def _dollars(text: str) -> float:
    return float(text.removeprefix("$"))


_MEMBERS: "dict[str, tuple[str, Callable[[str], Any]]]" = {
    "depth": ("depth", int),
    "children": ("children", int),
    "tokens": ("tokens", int),
    "cost": ("cost_usd", _dollars),
    "agents": ("agents", _agents),
}


def granted(text: str | None) -> "dict[str, Any] | None":
    """The ``delegate`` of `run.start`; None where there is to be none. Raises UsageError."""
    if text is None:
        return None
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in _MEMBERS:
            raise UsageError(f"cannot run --delegate: it knows no {name!r}", hint=FORM)
        member, convert = _MEMBERS[name]
        try:
            found[member] = convert(value)
        except ValueError:
            text = f"cannot run --delegate: {value!r} is no number for {name}"
            raise UsageError(text, hint=FORM) from None
    for name in ("depth", "children"):
        if name not in found:
            raise UsageError(f"cannot run --delegate: {name} is missing", hint=FORM)
    return found
