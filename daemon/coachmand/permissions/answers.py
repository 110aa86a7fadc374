"""What a handler answered: JSON of a few members, or nothing, which leaves it to the others."""

import json
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from .choice import KIND_OF_WORD, KINDS

MAX_MESSAGE_CHARACTERS = 32 * 1024
_NAMES = ("run", "request", "requested_at")
_MEMBERS = {"option", "kind", "message", *_NAMES}
# What says in so many words that somebody else is to decide.
_PASSES = frozenset({"ask", "pass"})


class AnswerError(Exception):
    """It is no answer; the text says why."""


@frozen
class Given:
    """One of ``option`` and ``kind``; ``of`` names the question, as far as it does."""

    option: str | None
    kind: str | None
    message: str | None
    of: Mapping[str, Any]

    def check_of(self, question: Mapping[str, Any], needed: tuple[str, ...] = ()) -> None:
        """Raise AnswerError where it is not about ``question``, or names not what is ``needed``."""
        for name in needed:
            if name not in self.of:
                raise AnswerError(f"it does not say the `{name}` that it is about")
        for name, value in self.of.items():
            if question.get(name) != value:
                raise AnswerError(
                    f"it is about `{name}` {_shown(value)}, which is not what is asked"
                )


def read_answer(data: bytes) -> Given | None:
    """The answer that ``data`` is; None where it leaves the question to others.

    Raises AnswerError.
    """
    if not data.strip():
        return None
    found = _decoded(data)
    if found is None:
        return None
    option, kind, message = (_text(found, name) for name in ("option", "kind", "message"))
    if option is None and (kind is None or kind in _PASSES):
        return None
    if option is not None and kind is not None:
        raise AnswerError("it has both `option` and `kind`")
    if kind is not None and KIND_OF_WORD.get(kind, kind) not in KINDS:
        raise AnswerError(f"`kind` {_shown(kind)} is none of {', '.join((*KIND_OF_WORD, *KINDS))}")
    of: dict[str, Any] = {name: found[name] for name in _NAMES if name in found}
    return Given(option, kind, message, of)


def _decoded(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AnswerError("it is no JSON") from error
    if not (found is None or isinstance(found, dict)):
        raise AnswerError("it is no JSON object")
    if unknown := sorted(set(found or ()) - _MEMBERS):
        raise AnswerError(f"{_shown(unknown[0])} is no member of an answer")
    return found


def _text(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    if value is None or (isinstance(value, str) and len(value) <= MAX_MESSAGE_CHARACTERS):
        return value
    raise AnswerError(f"`{name}` is no text of at most {MAX_MESSAGE_CHARACTERS} characters")


def _shown(value: Any) -> str:
    return repr(value)[:60]
