"""CHOICE as people type it, against the options that an agent offers."""

from ..errors import UsageError
from .asked import choice_names
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypedDict

    from ..records import OptionKind

    class Choice(TypedDict, total=False):
        """Exactly one of both."""

        option: str
        kind: OptionKind


# Words first: an option id is chosen by the agent and must not give "allow" another meaning.
_KINDS: "dict[str, OptionKind]" = {
    "allow": "allow_once",
    "yes": "allow_once",
    "y": "allow_once",
    "always": "allow_always",
    "deny": "reject_once",
    "no": "reject_once",
    "n": "reject_once",
    "never": "reject_always",
    "allow_once": "allow_once",
    "allow_always": "allow_always",
    "reject_once": "reject_once",
    "reject_always": "reject_always",
}

# What nobody would say in reply to a question that is not about a permission.
_ALLOWING = frozenset({"allow", "always", "deny"})
# Their order is that in which they are offered.
_WORDS = {
    "allow_once": "allow",
    "allow_always": "always",
    "reject_once": "deny",
    "reject_always": "never",
}
# The answer to a run that lacks what its caller's shell had lent.
LEND = "lend"
# Any words of one's own: the answer to what a run asks in words.
TEXT = "TEXT"
_USUAL = ({"kind": "allow_once"}, {"kind": "allow_always"}, {"kind": "reject_once"})


def takes(attention: "Mapping[str, Any] | None", word: str = "") -> bool:
    """Whether `answer` is what a run needs; with a ``word``, whether that is."""
    if not attention:
        return False
    if word:
        return word in words(attention)
    return attention.get("kind") in ("credentials", "question") or bool(attention.get("options"))


def words(request: "Mapping[str, Any]") -> list[str]:
    """What may be typed for this request's options: a word each, or else their numbers.

    A word tells nothing where several options are of its kind.
    """
    if request.get("kind") == "credentials":
        return [LEND]
    if request.get("kind") == "question":
        return [*(str(option["id"]) for option in request["options"]), TEXT]
    kinds = [str(option.get("kind")) for option in request.get("options") or _USUAL]
    found = [word for kind, word in _WORDS.items() if kind in kinds]
    if len(found) == len(kinds):
        return found
    return [str(number) for number in range(1, len(kinds) + 1)]


def words_for(request: "Mapping[str, Any]") -> str:
    """The same as the command's operand: ``allow|always|deny``."""
    return "|".join(words(request))


def told(question: "Mapping[str, Any]", typed: str) -> str:
    """The answer that ``typed`` is to a question in words: a number is that option's.

    Raises UsageError for a word that allows or denies, where none such is offered: whoever asks
    in words has nothing that could be allowed, and would be told the bare word.
    """
    options = [str(option) for option in question["options"]]
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(options):
        return options[int(typed) - 1]
    if typed.lower() in _ALLOWING and typed not in options:
        asked = visible(question.get("handle") or question.get("run"))
        raise UsageError(
            f"cannot answer {visible(question.get('request'))} with {typed!r}:"
            " it asks in words, and there is nothing to allow or deny",
            hint=f"say it in words, or this very word with -m {typed}",
            next=[["coachman", "permissions", asked]],
        )
    return typed


def choose(request: "Mapping[str, Any]", typed: str) -> "Choice":
    """What ``typed`` stands for: a kind, the number of an option, or its id.

    Raises UsageError that lists the choices.
    """
    options = [option for option in request.get("options") or () if isinstance(option, dict)]
    kind = _KINDS.get(typed.lower())
    if kind is not None:
        return {"kind": kind}
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(options):
        return {"option": str(options[int(typed) - 1]["id"])}
    if any(option.get("id") == typed for option in options):
        return {"option": typed}
    raise UsageError(
        f"cannot answer {visible(request.get('request'))}: {typed!r} is not one of its choices",
        hint=f"choose {', '.join(words(request))}, or: {', '.join(choice_names(request))}",
    )
