"""Adapters of other CLIs to ACP, each with an API key, the API on loopback."""

from typing import Any

from model_server import ModelServer

from agents_driver import choose, choose_option, is_event
from parts.claude import QUESTION as CLAUDE_QUESTION
from parts.codex import QUESTION as CODEX_QUESTION
from parts.part import Part

ALLOW = choose("allow_once")


KEPT = 2
LISTS = ("availableCommands", "availableModels")
DROPPED = ("availableSkillDetails", "availableSkills")


def shorten(frame: dict[str, Any]) -> dict[str, Any]:
    """``frame`` without most of what the build offers: it says nothing about a run."""
    return {name: _short(name, value) for name, value in frame.items()}


def _short(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {inner: _short(inner, held) for inner, held in value.items()}
    if name in DROPPED:
        return []
    if name in LISTS and isinstance(value, list):
        return [{k: v for k, v in each.items() if k != "_meta"} for each in value[:KEPT]]
    return value


def _claude(model: ModelServer) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


def _codex(model: ModelServer) -> dict[str, str]:
    config = f"""\
model = "gpt-5.5"
model_provider = "fake"

[model_providers.fake]
name = "Fake"
base_url = "{model.base_url}"
wire_api = "responses"
requires_openai_auth = true
"""
    return {".codex/config.toml": config}


CLAUDE_AGENT_ACP = Part(
    name="claude-agent-acp",
    adapter="claude-agent-acp",
    executable="@agentclientprotocol/claude-agent-acp/dist/index.js",
    wrong_session="00000000-0000-4000-8000-000000000000",
    env=_claude,
    question=CLAUDE_QUESTION,
    prices={"input": 3, "cached_input": 0.3, "output": 15},
    titles_cost=True,
    scenarios={
        "in_words": {
            "prompts": [CLAUDE_QUESTION + "\nSAY heard"],
            "permissions": "ask",
            "words": True,
            "decide": choose_option("write_in", "neither of them"),
        },
    },
    shorten=shorten,
    ids=(r"\b(toolu_|msg_)[0-9a-zA-Z]{8,}",),
)
CODEX_ACP = Part(
    name="codex-acp",
    adapter="codex-acp",
    executable="@agentclientprotocol/codex-acp/dist/index.js",
    wrong_session="00000000-0000-4000-8000-000000000000",
    env=lambda _model: {"OPENAI_API_KEY": "dummy"},
    files=_codex,
    # Where all is allowed it does not ask; where it asks, it has a sandbox of its own.
    permissions="ask",
    question=CODEX_QUESTION,
    asked_commands=False,
    prices={"input": 5, "cached_input": 0.5, "output": 30},
    scenarios={
        "in_words": {
            "prompts": [CODEX_QUESTION + "\nSAY heard"],
            "permissions": "ask",
            "words": True,
            "decide": choose_option("write_in", "neither of them"),
        },
        "write_free": {"prompts": ["WRITE notes.md hello"], "permissions": "allow"},
        "run": {"prompts": ["RUN echo hi && exit 3\nTHINK what now"], "permissions": "allow"},
        "cancel_tool": {
            "prompts": ["RUN sleep 30"],
            "permissions": "allow",
            "decide": ALLOW,
            "cancel_when": is_event("tool.call", status="in_progress"),
        },
        "limit": {"prompts": ["LIMIT 7"]},
    },
    shorten=shorten,
    ids=(r"\b(msg_call_|call_|rs_|resp_)[0-9a-zA-Z]{8,}",),
)
