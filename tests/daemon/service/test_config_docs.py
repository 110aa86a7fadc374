"""The configuration's document has each key once, with what is built in."""

import re
from typing import Any

import pytest
from attrs import fields

import sourcetree
from coachmand import config, config_reader

TEXT = (sourcetree.ROOT / "docs/configuration.md").read_text()
ROWS = re.findall(r"^\| `([a-z_.]+)` \| .* \| ([^|]*) \|$", TEXT, re.MULTILINE)
# None in their records says that the file is silent, which is not the same as naming the default.
UNSAID = {"permissions", "usage"}
TOLD = [(name, text) for name, text in ROWS if text.startswith("`") and name not in UNSAID]


def keys(cls: Any, prefix: str = "") -> list[str]:
    """Every key with its tables; without their names, where people choose these."""
    found: list[str] = []
    for item in fields(cls):
        name = prefix + (item.metadata.get("name") or item.name)
        if "table" in item.metadata:
            found += keys(item.metadata["table"], f"{name}.")
        elif "each" in item.metadata:
            found += keys(item.metadata["each"])
        else:
            found.append(name)
    return found


def test_every_key_is_documented_once() -> None:
    """The tables name the keys that the daemon reads, each once, and no other."""
    told = sorted([*keys(config.Config), *keys(config.RuleSettings)])
    assert sorted(name for name, _ in ROWS) == told


@pytest.mark.parametrize(("name", "told"), TOLD)
def test_what_is_built_in_is_told(name: str, told: str) -> None:
    """A file that sets a key to what the document calls built in changes nothing."""
    text = told.partition(":")[0].strip("`")

    assert config_reader.parse(f"{name} = {text}\n", "/home/me") == config.Config()
