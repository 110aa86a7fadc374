"""Settings that an agent needs, under those that its user has, or a few of these alone."""

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from coachman_adapters.conversation import Seed


def content_of(seed: Seed, own: bytes | None) -> bytes:
    """What to write for ``seed`` where the user's own file has ``own``.

    What is no plain JSON object (one with comments, say) stays as the user has it.
    """
    if not seed.defaults or own is None:
        return seed.content
    try:
        settings = json.loads(own)
    except (ValueError, RecursionError):
        return own
    if not isinstance(settings, dict):
        return own
    return json.dumps(_over(json.loads(seed.content), settings), indent=2).encode()


def _over(defaults: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **settings}
    for name, value in defaults.items():
        if isinstance(value, dict) and isinstance(merged[name], dict):
            merged[name] = _over(value, merged[name])
    return merged


def members_of(content: bytes, path: str, names: Collection[str]) -> bytes | None:
    """Of a JSON or TOML file the members ``names`` alone; None where it has none of them.

    What is no plain object is taken to have none.
    """
    in_toml = path.endswith(".toml")
    try:
        found = tomllib.loads(content.decode()) if in_toml else json.loads(content)
    except (ValueError, RecursionError):
        return None
    is_object = isinstance(found, dict)
    kept = {name: found[name] for name in names if name in found} if is_object else {}
    if not kept:
        return None
    return "".join(_toml(kept)).encode() if in_toml else json.dumps(kept, indent=2).encode()


def _toml(table: Mapping[str, Any], *above: str) -> Iterator[str]:
    """Values first: what follows a table's head belongs to it."""
    for name, value in table.items():
        if not isinstance(value, dict):
            yield f"{_toml_value(name)} = {_toml_value(value)}\n"
    for name, value in table.items():
        if isinstance(value, dict):
            path = (*above, _toml_value(name))
            yield f"[{'.'.join(path)}]\n"
            yield from _toml(value, *path)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_toml_value(name)} = {_toml_value(each)}" for name, each in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    # Strings, truth values and numbers are written alike; a date has a form of its own.
    plain = isinstance(value, str | bool | int | float)
    # JSON leaves DEL as it is, which TOML does not take.
    text = json.dumps(value, ensure_ascii=False) if plain else value.isoformat()
    return str(text).replace("\x7f", "\\u007f")
