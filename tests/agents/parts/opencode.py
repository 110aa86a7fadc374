"""opencode, with the scripted model as its only provider."""

import json

from model_server import ModelServer

from parts.part import Part


def _files(model: ModelServer) -> dict[str, str]:
    return {".config/opencode/opencode.json": json.dumps(model.opencode_config())}


OPENCODE = Part(
    name="opencode",
    adapter="opencode",
    executable="opencode-ai/bin/opencode.exe",
    wrong_session="ses_nosuchsession0000000000",
    files=_files,
    prices={"input": 1, "output": 2},
    ids=(r"\b(ses_|msg_|prt_|call_|per_)(?!nosuch)[0-9A-Za-z]{8,}",),
    scenarios={
        "two_turns": {"prompts": ["SAY one", "SAY two"], "keep": True, "model": "fake-small"},
        "wrong_model": {"prompts": ["SAY never"], "model": "fake/nothing"},
    },
)
