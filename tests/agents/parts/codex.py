"""Codex with an API key, its API on loopback: as ``codex exec``, and as its app server."""

from typing import Any

from model_server import ModelServer

from agents_driver import choose, choose_option, is_event
from coachman_adapters.conversation import Ask
from parts.part import Part

BINARY = "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
NO_SESSION = "01a22b00-0000-7000-8000-00000000dead"
# Known to the binary: with a model that is not, there is no tool for patches.
MODEL = "gpt-5.5"
# OpenAI's list prices of it, in dollars for a million tokens.
PRICES = {"input": 5.0, "cached_input": 0.5, "output": 30.0}
IDS = (r"\b(call_|msg_call_|rs_call_)[0-9a-f]{8,}",)
ALWAYS = choose("allow_always")
# Of what a thread is opened with: the machine's are left out.
OPENED = ("model", "modelProvider", "approvalPolicy", "sandbox", "reasoningEffort")
MOMENTS = ("startedAt", "completedAt", "durationMs", "emittedAtMs", "startedAtMs", "completedAtMs")
QUESTION = (
    'CALL request_user_input {"questions": [{"id": "one", "header": "One", "question":'
    ' "Which one?", "options": [{"label": "Left", "description": "the left one"},'
    ' {"label": "Right", "description": "the right one"}]}]}'
)
BOTH: dict[str, Any] = {
    "server_error": {"prompts": ["FAIL 500"]},
    "limited": {"prompts": ["LIMIT"]},
    "broken_stream": {"prompts": ["BREAK the line went dead"]},
    "max_tokens": {"prompts": ["STOP max_output_tokens part"]},
    # codex asks again before it gives up.
    "retried": {"prompts": ["STOP content_filter part\nSAY well"]},
    "refused": {"prompts": ["\n".join(["STOP content_filter part"] * 6)]},
    "unknown_model": {"prompts": ["SAY hello"], "model": "unheard-of"},
    "think": {"prompts": ["THINK deep"]},
}


def _nobody(_ask: Ask) -> dict[str, Any]:
    """The answer where nobody chose."""
    return {"option": None}


def _env(_model: ModelServer) -> dict[str, str]:
    return {"CODEX_API_KEY": "dummy"}


def _files(model: ModelServer) -> dict[str, str]:
    return {".codex/config.toml": f'model = "{MODEL}"\nopenai_base_url = "{model.base_url}"\n'}


def _shorten(frame: dict[str, Any]) -> dict[str, Any]:
    """``frame`` without moments, and a thread without what is the machine's."""
    told = _timeless(frame)
    result = told.get("result")
    if isinstance(result, dict) and isinstance(result.get("thread"), dict):
        thread = {"thread": {"id": result["thread"]["id"]}}
        told["result"] = thread | {name: result[name] for name in OPENED if name in result}
    if isinstance(result, dict) and "userAgent" in result:
        told["result"] = {"userAgent": result["userAgent"].split(" ")[0]}
    return told


def _timeless(value: Any) -> Any:
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    if isinstance(value, dict):
        return {name: _timeless(each) for name, each in value.items() if name not in MOMENTS}
    return value


CODEX_EXEC = Part(
    name="codex-exec",
    adapter="codex",
    executable=BINARY,
    wrong_session=NO_SESSION,
    env=_env,
    files=_files,
    bounded=True,
    prices=PRICES,
    ids=IDS,
    scenarios={
        **BOTH,
        # It says nothing before an answer is whole, asks nothing, and is cancelled by a signal.
        **dict.fromkeys(("write_denied", "cancel_stream", "cancel_question", "cancel_tool")),
        "two_turns": None,
    },
)
CODEX_APP_SERVER = Part(
    name="codex-app-server",
    adapter="codex",
    executable=BINARY,
    wrong_session=NO_SESSION,
    env=_env,
    files=_files,
    permissions="ask",
    question=QUESTION,
    prices=PRICES,
    ids=IDS,
    shorten=_shorten,
    scenarios={
        **BOTH,
        "in_words": {
            "prompts": [QUESTION + "\nSAY heard"],
            "permissions": "ask",
            "words": True,
            "decide": choose_option("write_in", "neither of them"),
        },
        "allowed_always": {"prompts": ["RUN touch a\nRUN touch a\nSAY well"], "decide": ALWAYS},
        "run_denied": {"prompts": ["RUN touch a\nSAY well"], "decide": choose("reject_once")},
        "question_cancelled": {"prompts": ["RUN touch a\nSAY never"], "decide": _nobody},
        "cancelled_then_more": {
            "prompts": ["RUN sleep 30", "SAY more"],
            "keep": True,
            "cancel_when": is_event("tool.call_update", status="in_progress"),
            "decide": choose("allow_once"),
        },
    },
)
