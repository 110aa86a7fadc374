"""Picks from a session's configuration options what a run asked for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MODEL = "model"
EFFORT = "thought_level"
MODE = "mode"

Options = Sequence[Mapping[str, Any]]


def offered(result: Any) -> list[dict[str, Any]]:
    """The well-formed select options of a result or update; the rest is left out."""
    given = result.get("configOptions") if isinstance(result, Mapping) else None
    options = given if isinstance(given, list) else []
    return [option for option in options if isinstance(option, dict) and _is_select(option)]


def _is_select(option: Mapping[str, Any]) -> bool:
    return option.get("type", "select") == "select" and isinstance(option.get("id"), str)


def find(options: Options, category: str) -> Mapping[str, Any] | None:
    """The option of ``category``; categories are optional, so ids count as well."""
    by_category = (option for option in options if option.get("category") == category)
    by_id = (option for option in options if option["id"] == category)
    return next(by_category, None) or next(by_id, None)


def value_for(option: Mapping[str, Any], wanted: str) -> str:
    """The option's value that ``wanted`` means: a value, a name, or a value's last part.

    What fits nothing (or several) goes to the agent as it is, for the agent to refuse.
    """
    values = list(_values(option.get("options")))
    exact = [value for value, name in values if wanted in (value, name)]
    loose = [value for value, _ in values if value.rpartition("/")[2] == wanted]
    for matches in (exact, loose):
        if len(matches) == 1:
            return matches[0]
    return wanted


def _values(options: Any) -> Iterator[tuple[str, str]]:
    for item in options if isinstance(options, list) else ():
        if not isinstance(item, dict):
            continue
        if isinstance(item.get("options"), list):
            yield from _values(item["options"])
        elif isinstance(item.get("value"), str):
            yield item["value"], str(item.get("name", ""))


def brief(options: Options) -> list[dict[str, Any]]:
    """What is set, without what could be: all that matters once a session is set up."""
    return [{"id": option["id"], "currentValue": option.get("currentValue")} for option in options]


def current(options: Options) -> dict[str, Any]:
    """What is set now, by option id."""
    return {option["id"]: option.get("currentValue") for option in options}
