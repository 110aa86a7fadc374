"""Which of the offered options a decision means: by kind, never by id or position."""

from collections.abc import Mapping, Sequence
from typing import Any

Option = Mapping[str, Any]

KIND_OF_WORD = {
    "allow": "allow_once",
    "yes": "allow_once",
    "always": "allow_always",
    "deny": "reject_once",
    "no": "reject_once",
    "never": "reject_always",
}
KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


class ChoiceError(Exception):
    """No offered option is meant, or more than one is. The text lists what can be chosen."""


# What a standing decision chooses, the first kind that is offered clearly. An allow is for once
# and becomes an always only where that was said; a deny never falls back to an allow.
_WANTED = {
    "allow": ("allow_once",),
    "always": ("allow_always", "allow_once"),
    "deny": ("reject_once", "reject_always"),
}


def by_policy(options: Sequence[Option], decide: str) -> Option | None:
    """What a standing decision to allow, always or deny chooses; None without a clear choice.

    Several options of one kind are a question, which no policy answers.
    """
    for kind in _WANTED[decide]:
        found = [option for option in options if option["kind"] == kind]
        if len(found) == 1 and not found[0].get("requires_message"):
            return found[0]
    return None


def by_person(options: Sequence[Option], *, option: str | None, kind: str | None) -> Option:
    """The option that someone named by its id or by its kind.

    Raises `ChoiceError` where nothing, or more than one option, answers to it.
    """
    if option is not None:
        found = [offered for offered in options if offered["id"] == option]
        wanted = f"option {option!r}"
    else:
        full = KIND_OF_WORD.get(kind or "", kind)
        found = [offered for offered in options if offered["kind"] == full]
        wanted = f"kind {kind!r}"
    if len(found) == 1:
        return found[0]
    problem = "several options have" if found else "no option has"
    raise ChoiceError(f"{problem} {wanted}; the agent offers {describe(options)}")


def describe(options: Sequence[Option]) -> str:
    """The options as a person may choose them."""
    return ", ".join(f"{o['id']} ({o['kind']}: {o['name']})" for o in options) or "nothing"
