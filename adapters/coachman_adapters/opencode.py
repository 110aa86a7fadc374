"""opencode over ACP on stdio, and the usage in its session export."""

import json
from typing import Any

import msgspec

from coachman_adapters.acp.agent import AcpAgent
from coachman_adapters.acp.quirks import Conversed, Quirks, count
from coachman_adapters.conversation import AgentRequest, AgentSpec, LaunchPlan, Seed, Usage

# The CLI always asks, whatever the run's own rule is, so that each request is recorded.
CONFIG: dict[str, Any] = {
    "$schema": "https://opencode.ai/config.json",
    "autoupdate": False,
    "share": "disabled",
    "snapshot": False,
    "permission": {"edit": "ask", "bash": "ask", "webfetch": "ask"},
}
DISABLED = (
    "AUTOUPDATE",
    "MODELS_FETCH",
    "LSP_DOWNLOAD",
    "DEFAULT_PLUGINS",
    "SHARE",
    "CLAUDE_CODE",
)
CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_API_KEY",
    "CEREBRAS_API_KEY",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GITHUB_TOKEN",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "OPENAI_API_KEY",
    "OPENCODE_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZHIPU_API_KEY",
)
SETTINGS = (
    "AWS_REGION",
    "AZURE_RESOURCE_NAME",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
)
COPIES = (
    ".config/opencode/opencode.json",
    ".config/opencode/opencode.jsonc",
    ".local/share/opencode/auth.json",
)
EXPORT_LIMIT_S = 20.0
COST_DIGITS = 9


def _launch(request: AgentRequest) -> LaunchPlan:
    config = json.dumps(CONFIG, separators=(",", ":"))
    switches = {f"OPENCODE_DISABLE_{name}": "1" for name in DISABLED}
    return LaunchPlan(
        argv=("{executable}", "acp"),
        env={"OPENCODE_CONFIG_CONTENT": config, **switches},
        seeds=tuple(Seed(path, source=path) for path in COPIES),
        epilogue=("{executable}", "export", "{session}"),
        epilogue_limit_s=EXPORT_LIMIT_S,
    )


def read_export(output: bytes, part: Conversed) -> Usage | None:
    """This conversation's usage out of ``opencode export``; None where it is unreadable.

    The request for a session's title is in no message, so it is not counted.
    """
    try:
        session = msgspec.json.decode(output)
        messages = [message for message in session["messages"] if "info" in message]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return None
    answers = [
        message["info"]
        for message in messages[_begin(messages, part) :]
        if message["info"].get("role") == "assistant"
    ]
    counters = _counters([answer.get("tokens") or {} for answer in answers])
    # Steps that were cancelled or failed report nothing: that is unknown, not zero.
    if not counters["total"]:
        return None
    cost = sum(float(answer.get("cost") or 0.0) for answer in answers)
    return Usage(counters, round(cost, COST_DIGITS))


def _counters(tokens: list[dict[str, Any]]) -> dict[str, int]:
    caches = [step.get("cache") or {} for step in tokens]
    counters = {
        "input": sum(count(step.get("input")) for step in tokens)
        + sum(count(cache.get("write")) for cache in caches),
        "cached_input": sum(count(cache.get("read")) for cache in caches),
        "output": sum(count(step.get("output")) for step in tokens),
        "reasoning": sum(count(step.get("reasoning")) for step in tokens),
    }
    return counters | {"total": sum(counters.values())}


def _begin(messages: list[dict[str, Any]], part: Conversed) -> int:
    """The index of the first message that belongs to this conversation."""
    if not part.resumed:
        return 0
    for message in messages:
        if _is_first(message, part):
            parent = message["info"].get("parentID")
            ids = [other["info"].get("id") for other in messages]
            return ids.index(parent) if parent in ids else messages.index(message)
    users = [n for n, message in enumerate(messages) if message["info"].get("role") == "user"]
    return users[-part.prompts] if len(users) >= part.prompts else len(messages)


def _is_first(message: dict[str, Any], part: Conversed) -> bool:
    if part.first_message is not None and message["info"].get("id") == part.first_message:
        return True
    calls = [piece.get("callID") for piece in message.get("parts") or []]
    return part.first_tool_call is not None and part.first_tool_call in calls


OPENCODE = AcpAgent(
    spec=AgentSpec(
        name="opencode",
        title="opencode",
        executables=("opencode",),
        native=("bin/opencode.exe", "bin/opencode"),
        environment=(*CREDENTIALS, *SETTINGS),
        credentials=CREDENTIALS,
        # What a model offers differs; the agent refuses the others by name.
        efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max", "default"),
        resumes=True,
    ),
    launch=_launch,
    # A prompt's result counts its last step only; the export has them all.
    quirks=Quirks(settle_s=0.25, result_usage="none", title_is_name=True, epilogue=read_export),
)
