"""Which values in the user's own files nobody is to read, told by the names of their members."""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

_IN_SETTINGS = ("apikey", "api_key", "token", "secret", "password")
_IN_CREDENTIALS = (*_IN_SETTINGS, "key", "access", "refresh")
# Shorter ones are words and numbers, as a rule.
_MIN_CHARACTERS = 12


def secrets_in(content: bytes, path: str, *, is_credential: bool) -> tuple[str, ...]:
    """Of a file of credentials or of settings: JSON, TOML by ``path``, or lines NAME=VALUE.

    Nothing where it is none of these.
    """
    ends = _IN_CREDENTIALS if is_credential else _IN_SETTINGS
    return tuple(dict.fromkeys(_found(_read(content, path), "", ends)))


def _read(content: bytes, path: str) -> Any:
    try:
        return tomllib.loads(content.decode()) if path.endswith(".toml") else json.loads(content)
    except (ValueError, RecursionError):
        return dict(_assignments(content.decode("utf-8", "replace")))


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals:
            yield name.strip(), value.strip().strip("\"'")


def _found(told: Any, name: str, ends: tuple[str, ...]) -> Iterator[str]:
    """A list's values are its member's."""
    if isinstance(told, dict):
        for member, value in told.items():
            yield from _found(value, member, ends)
    elif isinstance(told, list):
        for value in told:
            yield from _found(value, name, ends)
    elif isinstance(told, str) and len(told) >= _MIN_CHARACTERS and name.lower().endswith(ends):
        yield told
