"""Elicitations: forms by which an agent asks in words, as a question with options of its own.

A form that has a text to fill in, or one choice among words, can be answered by one answer. Of
several questions each gets the same words, since more than one answer has no place here.
"""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import in_words
from coachman_adapters.acp.permissions import NAME_CHARS, QUESTION_CHARS
from coachman_adapters.conversation import Option

DECLINE = Option("decline", "reject_once", "Decline to answer")
CANCELLED: Mapping[str, Any] = {"action": "cancel"}
MAX_FIELDS = 32
# What agents call the choice that words of one's own go with, where one has to be chosen.
OTHERS = ("Other", "None of the above")

Fields = dict[str, Any]


def read(params: Mapping[str, Any]) -> Fields | None:
    """What of a form an answer can fill in; None where one answer cannot.

    ``choose`` is the field that takes one of ``labels`` (by the words that stand for each),
    ``write`` those that take any words; ``beside`` is what has to be chosen with these.
    """
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if params.get("mode") != "form" or not isinstance(properties, dict):
        return None
    if not 0 < len(properties) <= MAX_FIELDS:
        return None
    offered = {name: _offered(field) for name, field in properties.items()}
    chosen = [name for name, labels in offered.items() if labels]
    write = [name for name, field in properties.items() if _is_text(field)]
    one = chosen[0] if len(chosen) == 1 else None
    labels = offered[one] if one is not None else {}
    required = schema.get("required") if isinstance(schema, dict) else None
    wanted = {*required} if isinstance(required, list) else set()
    others = [name for name in OTHERS if name in labels and one in wanted]
    beside = {one: others[0]} if others else {}
    fields = {
        "choose": one if wanted <= {one} else None,
        "labels": labels,
        "write": write if wanted <= {*write, *beside} else [],
        "beside": beside,
    }
    return fields if fields["choose"] is not None or fields["write"] else None


def text(params: Mapping[str, Any]) -> str:
    """All that is asked, on one line."""
    fields = params["requestedSchema"]["properties"].values()
    words = [params.get("message"), *(_asked(field) for field in fields if _offered(field))]
    asked = " / ".join(each for each in words if isinstance(each, str) and each)
    return " ".join(asked.split())[:QUESTION_CHARS] or "The agent asks something"


def _asked(field: Mapping[str, Any]) -> str | None:
    """What is asked in a field: one has a description, or it is what the form itself asks."""
    if not isinstance(field.get("description"), str):
        return None
    return max(str(field.get("title") or ""), str(field["description"]), key=len)


def options(fields: Fields) -> tuple[Option, ...]:
    """What can be answered."""
    labels = fields["labels"].values() if fields["choose"] is not None else ()
    return (*in_words.options(labels, other=bool(fields["write"])), DECLINE)


def result(fields: Fields, option: str | None, message: str | None) -> Mapping[str, Any]:
    """The form as it was filled in."""
    if option == DECLINE.id:
        return {"action": "decline"}
    if option == in_words.WRITE_IN and message:
        content = {**fields["beside"], **dict.fromkeys(fields["write"], message)}
        return {"action": "accept", "content": content}
    values = dict(zip(in_words.choices(fields["labels"].values()), fields["labels"], strict=False))
    if option in values and fields["choose"] is not None:
        return {"action": "accept", "content": {fields["choose"]: values[str(option)]}}
    return CANCELLED


def _offered(field: Any) -> dict[str, str]:
    """The values of a field that takes one of some, and what they are called."""
    if not isinstance(field, dict) or field.get("type") != "string":
        return {}
    names = field.get("enum")
    if isinstance(names, list):
        return {name: name[:NAME_CHARS] for name in names if isinstance(name, str)}
    listed = field.get("oneOf")
    found = [each for each in (listed if isinstance(listed, list) else ()) if _is_choice(each)]
    return {each["const"]: str(each.get("title") or each["const"])[:NAME_CHARS] for each in found}


def _is_choice(each: Any) -> bool:
    return isinstance(each, dict) and isinstance(each.get("const"), str)


def _is_text(field: Any) -> bool:
    if not isinstance(field, dict) or field.get("type") != "string":
        return False
    return not isinstance(field.get("enum"), list) and not isinstance(field.get("oneOf"), list)
