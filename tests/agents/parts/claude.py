"""Claude Code with an API key, its API on loopback."""

from typing import Any

from model_server import ModelServer

from agents_driver import choose
from parts.part import Part

# An agent of the user's own.
TERSE = """---
name: terse
description: Says little
---
Obey.
"""
ALWAYS = choose("allow_always")
WRITE_BOTH = "WRITE a.md one\nWRITE b.md two"
QUESTION = (
    'CALL AskUserQuestion {"questions": [{"question": "Which one?", "header": "One",'
    ' "multiSelect": false, "options": [{"label": "Left", "description": "the left one"},'
    ' {"label": "Right", "description": "the right one"}]}]}'
)
SUBAGENT = (
    'CALL Agent {"description": "write a note", "subagent_type": "general-purpose",'
    ' "prompt": "WRITE note.md inside\\nSAY well noted"}'
)
LIMITED = {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"}
# Of these a few show the form.
LISTS = ("commands", "slash_commands", "skills", "agents", "models", "plugins", "capabilities")
KEPT = 2
ANSWERED = ("commands", "agents", "account", "claude_code_version", "current_permission_mode")


def _env(model: ModelServer) -> dict[str, str]:
    return {
        "ANTHROPIC_API_KEY": "dummy",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.port}",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5",
        "CLAUDE_CODE_MAX_RETRIES": "1",
    }


def _shorten(frame: dict[str, Any]) -> dict[str, Any]:
    """``frame`` without lists of what the build offers, process ids and moments."""
    frame = {name: _short(name, value) for name, value in frame.items()}
    if frame.get("type") == "control_response" and "response" in frame["response"]:
        answer = frame["response"]["response"]
        kept = {name: _short(name, answer[name]) for name in ANSWERED if name in answer}
        return {**frame, "response": {**frame["response"], "response": kept or answer}}
    frame.pop("messaging_socket_path", None)
    if "rate_limit_info" in frame and "resetsAt" in frame["rate_limit_info"]:
        frame["rate_limit_info"]["resetsAt"] = 1700000000
    return frame


def _short(name: str, value: Any) -> Any:
    return value[-KEPT:] if name in LISTS and isinstance(value, list) else value


CLAUDE = Part(
    name="claude",
    adapter="claude",
    executable="@anthropic-ai/claude-code/bin/claude.exe",
    wrong_session="12345678-1234-4123-8123-123456789abc",
    env=_env,
    question=QUESTION,
    prices={"input": 3, "cached_input": 0.3, "output": 15},
    files=lambda _model: {".claude/agents/terse.md": TERSE},
    ids=(r"\b(msg_|toolu_)[0-9a-f]{8,}", r"\b(0mx)[0-9a-z]{6}-[0-9a-f]{8}\b"),
    shorten=_shorten,
    scenarios={
        "two_questions": {"prompts": [WRITE_BOTH]},
        "allowed_always": {"prompts": [WRITE_BOTH], "permissions": "ask", "decide": ALWAYS},
        "denied_with_words": {
            "prompts": ["WRITE notes.md hello\nSAY understood"],
            "decide": choose("reject_once", "Leave the notes alone."),
        },
        "question": {
            "prompts": [QUESTION],
            "permissions": "ask",
            "decide": choose("allow_once"),
        },
        "subagent": {"prompts": [SUBAGENT]},
        "as_agent": {"prompts": ["SAY little"], "as_agent": "terse"},
        "max_turns": {
            "prompts": ["RUN true\nSAY never"],
            "env": {"CLAUDE_CODE_MAX_TURNS": "1"},
        },
        "max_tokens": {"prompts": ["\n".join(f"STOP max_tokens part {n}" for n in range(5))]},
        "refused": {"prompts": ["STOP refusal no\nSTOP refusal no"]},
        "server_error": {"prompts": ["FAIL 500"]},
        "limited": {"prompts": ["LIMIT"]},
        "usage_limit": {"prompts": ["LIMIT 300"], "env": LIMITED},
        "not_logged_in": {"prompts": ["SAY never"], "env": {"ANTHROPIC_API_KEY": ""}},
        "wrong_agent": {"prompts": ["SAY never"], "as_agent": "nobody"},
    },
)
