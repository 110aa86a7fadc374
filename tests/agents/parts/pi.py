"""pi, with the scripted model as a provider of its own."""

import json

from model_server import ModelServer

from parts.part import Part

PRICES = {"input": 1, "output": 2, "cacheRead": 0.5, "cacheWrite": 0}


def _files(model: ModelServer) -> dict[str, str]:
    known = {
        "name": "Fake",
        "reasoning": False,
        "input": ["text"],
        "contextWindow": 128000,
        "maxTokens": 8192,
        "cost": PRICES,
    }
    provider = {
        "baseUrl": model.base_url,
        "api": "openai-completions",
        "apiKey": "dummy",
        "models": [{"id": name, **known} for name in ("fake-model", "fake-small")],
    }
    settings = {"defaultProvider": "fake", "defaultModel": "fake-model", "quietStartup": True}
    return {
        ".pi/agent/models.json": json.dumps({"providers": {"fake": provider}}),
        ".pi/agent/settings.json": json.dumps(settings),
        # Its own prompt is long, and names the files of its installation.
        ".pi/agent/SYSTEM.md": "Obey.",
    }


PI = Part(
    name="pi",
    adapter="pi",
    executable="@earendil-works/pi-coding-agent/dist/bundle/cli.js",
    wrong_session="01999999-9999-7999-8999-999999999999",
    files=_files,
    prices={"input": 1, "cached_input": 0.5, "output": 2},
    ids=(
        r"\b(call_)[0-9A-Za-z]{8,}",
        # The name of a session's file.
        r"()\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    ),
    scenarios={
        "two_turns": {"prompts": ["SAY one", "SAY two"], "keep": True, "model": "fake-small"},
        "wrong_model": {"prompts": ["SAY never"], "model": "nothing-like-it"},
        "limited": {"prompts": ["LIMIT"]},
    },
)
