"""The tool by which the model asks the user something, as a question with its own options."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import in_words
from coachman_adapters.acp.permissions import NAME_CHARS, QUESTION_CHARS
from coachman_adapters.conversation import Option

TOOL = "AskUserQuestion"


def text(given: Mapping[str, Any]) -> str:
    """All that is asked, on one line."""
    asked = " / ".join(_questions(given)) or "The agent asks something"
    return " ".join(asked.split())[:QUESTION_CHARS]


def options(given: Mapping[str, Any]) -> tuple[Option, ...]:
    """One choice each where one is to be chosen, and the user's own words in any case."""
    return in_words.options(_labels(given))


def answers(given: Mapping[str, Any], option: str, message: str | None) -> dict[str, str]:
    """What the tool is told: an answer for each question."""
    said = message or in_words.choices(_labels(given)).get(option, "")
    return dict.fromkeys(_questions(given), said)


def _listed(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = given.get("questions")
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _questions(given: Mapping[str, Any]) -> list[str]:
    found = (each.get("question") for each in _listed(given))
    return [asked for asked in found if isinstance(asked, str) and asked]


def _labels(given: Mapping[str, Any]) -> list[str]:
    listed = _listed(given)
    if len(listed) != 1 or listed[0].get("multiSelect") is True:
        return []
    offered = listed[0].get("options")
    labels = [
        each.get("label")
        for each in (offered if isinstance(offered, list) else ())
        if isinstance(each, dict)
    ]
    return [label[:NAME_CHARS] for label in labels if isinstance(label, str)]
