"""Of a user's file, only the members that are asked for."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coachman_adapters.seeds import members_of

VALUES = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('aé"\\. \n'), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["model", "model_providers", "x y"]), VALUES, min_size=1))
def test_members_come_out_of_toml_as_they_were(found: dict[str, Any]) -> None:
    """Written anew, they read the same, whatever they hold; nothing else is there."""
    content = members_of(json.dumps({"a": found}).encode(), "f.json", ("a",))
    assert json.loads(content or b"") == {"a": found}
    first = members_of(_as_toml(found), "f.toml", tuple(found))
    assert tomllib.loads((first or b"").decode()) == found


def _as_toml(found: dict[str, Any]) -> bytes:
    """All in one line each, as inline tables: another form than the one that is written."""
    return "".join(f"{_inline(k)} = {_inline(v)}\n" for k, v in found.items()).encode()


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inline(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    # JSON leaves DEL as it is, which TOML does not take.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("f.toml", b"model = "),
        ("f.toml", b"other = 1\n"),
        ("f.json", b"[1]"),
        ("f.json", b'"model"'),
        ("f.json", b'// {"model": 1}'),
        ("f.json", b"\xff"),
    ],
)
def test_what_has_none_of_the_members_crosses_as_nothing(path: str, content: bytes) -> None:
    """Broken, of another form, or about something else."""
    assert members_of(content, path, ("model",)) is None
