"""Qwen Code as the documentation adds it: by configuration, with an API on loopback."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from model_server import ModelServer

from coachman_adapters.acp.agents import Described
from parts.acp import shorten
from parts.part import Part

DOCUMENT = Path(__file__).parents[3] / "docs" / "agents.md"
_BLOCK = re.search(r"```toml\n(\[agents\.qwen\]\n.*?)```", DOCUMENT.read_text(), re.DOTALL)
assert _BLOCK is not None
CONFIGURATION = _BLOCK[1]
# What it does by itself beside a turn is off: nobody asked for it, and it costs.
SETTINGS = {
    "security": {"auth": {"selectedType": "openai"}},
    "general": {"enableAutoUpdate": False},
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
    "privacy": {"usageStatisticsEnabled": False},
    "ui": {"enableFollowupSuggestions": False},
}


def _described() -> Described:
    told: dict[str, Any] = tomllib.loads(CONFIGURATION)["agents"]["qwen"]
    assert told.pop("adapter") == "acp"
    lists = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    return Described("qwen", **{**told, **lists})


def _env(model: ModelServer) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": "dummy",
        "OPENAI_BASE_URL": model.base_url,
        "OPENAI_MODEL": "fake-model",
    }


def _files(_model: ModelServer) -> dict[str, str]:
    return {
        ".config/coachman/config.toml": CONFIGURATION,
        ".qwen/settings.json": json.dumps(SETTINGS),
    }


QWEN = Part(
    name="qwen",
    adapter="qwen",
    own=_described().agent(),
    executable="@qwen-code/qwen-code/cli-entry.js",
    wrong_session="00000000-0000-4000-8000-000000000000",
    env=_env,
    files=_files,
    absolute=True,
    shorten=shorten,
    # It refuses to sleep, and says of no tool that it has begun.
    scenarios={"cancel_tool": None},
    ids=(r"\b(call_)[0-9a-f]{8,}",),
)
