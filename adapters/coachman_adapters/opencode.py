"""opencode over ACP on stdio, and the usage in its session export."""

import json
from typing import Any

import msgspec

from coachman_adapters.acp.agent import AcpAgent
from coachman_adapters.acp.quirks import Conversed, Quirks
from coachman_adapters.conversation import AgentRequest, AgentSpec, LaunchPlan, Usage, UserFiles
from coachman_adapters.counting import count, to_digits
from coachman_adapters.logins import Login
from coachman_adapters.opencode_store import TAKE_IN, sessions

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
# Of its logins this one has a refresh token that serves once. It is taken by a plugin, and those
# are off; so a run has no use for it.
LOGIN = Login(
    "opencode/auth.json",
    access=("openai", "access"),
    refresh=("openai", "refresh"),
    expires=("openai", "expires"),
    account=(("openai", "accountId"),),
    withheld="",
    renewal=None,
    provider="openai",
)
USER_FILES = (
    UserFiles(
        ".config",
        "XDG_CONFIG_HOME",
        settings=tuple(
            f"opencode/{name}"
            for name in (
                "opencode.json",
                "opencode.jsonc",
                "AGENTS.md",
                "agent",
                "command",
                "skill",
            )
        ),
        endpoints=dict.fromkeys(
            ("opencode/opencode.json", "opencode/opencode.jsonc"),
            ("provider", "model", "small_model", "enabled_providers", "disabled_providers"),
        ),
    ),
    UserFiles(".local/share", "XDG_DATA_HOME", credentials=(LOGIN.path,), logins=(LOGIN,)),
)
# It exits before a pipe has taken more than 128 KiB, so the export goes by a file.
EXPORT = 'f="${TMPDIR:-/tmp}/export.json"; "$0" export "$1" >"$f" && cat "$f"'
EXPORT_LIMIT_S = 20.0


def _launch(request: AgentRequest) -> LaunchPlan:
    config = json.dumps(CONFIG, separators=(",", ":"))
    switches = {f"OPENCODE_DISABLE_{name}": "1" for name in DISABLED}
    argv: tuple[str, ...] = ("{executable}", "acp")
    if request.session is not None:
        argv = ("/bin/sh", "-c", TAKE_IN, "{executable}", request.session)
    return LaunchPlan(
        argv=argv,
        env={"OPENCODE_CONFIG_CONTENT": config, **switches},
        epilogue=("/bin/sh", "-c", EXPORT, "{executable}", "{session}"),
        epilogue_limit_s=EXPORT_LIMIT_S,
    )


class _Cache(msgspec.Struct):
    read: float = 0
    write: float = 0


class _Tokens(msgspec.Struct):
    input: float = 0
    output: float = 0
    reasoning: float = 0
    cache: _Cache = msgspec.field(default_factory=_Cache)


class _Info(msgspec.Struct, rename={"parent": "parentID"}):
    role: str
    id: str
    parent: str | None = None
    cost: float = 0
    tokens: _Tokens = msgspec.field(default_factory=_Tokens)


class _Part(msgspec.Struct, rename={"call": "callID"}):
    call: str | None = None


class _Message(msgspec.Struct):
    info: _Info
    parts: list[_Part] = []


class _Export(msgspec.Struct):
    messages: list[_Message]


def read_export(output: bytes, part: Conversed) -> Usage | None:
    """This conversation's usage out of ``opencode export``; None where it is unreadable.

    The request for a session's title is in no message, so it is not counted.
    """
    try:
        messages = msgspec.json.decode(output, type=_Export).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    infos = [message.info for message in messages[_begin(messages, part) :]]
    answers = [info for info in infos if info.role == "assistant"]
    counters = _counters([answer.tokens for answer in answers])
    # Steps that were cancelled or failed report nothing: that is unknown, not zero.
    if not counters["total"]:
        return None
    return Usage(counters, to_digits(sum(answer.cost for answer in answers)))


def _counters(steps: list[_Tokens]) -> dict[str, int]:
    counters = {
        "input": sum(count(step.input) + count(step.cache.write) for step in steps),
        "cached_input": sum(count(step.cache.read) for step in steps),
        "output": sum(count(step.output) for step in steps),
        "reasoning": sum(count(step.reasoning) for step in steps),
    }
    return counters | {"total": sum(counters.values())}


def _begin(messages: list[_Message], part: Conversed) -> int:
    """The index of the first message that belongs to this conversation."""
    if not part.resumed:
        return 0
    for at, message in enumerate(messages):
        calls = [piece.call for piece in message.parts if piece.call]
        if message.info.id == part.first_message or part.first_tool_call in calls:
            ids = [other.info.id for other in messages]
            return ids.index(message.info.parent) if message.info.parent in ids else at
    users = [at for at, message in enumerate(messages) if message.info.role == "user"]
    return users[-part.prompts] if len(users) >= part.prompts else len(messages)


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
        keeps=True,
        takes_agent=True,
        user_files=USER_FILES,
        sessions=sessions(USER_FILES[1]),
        reports_cost=True,
    ),
    launch=_launch,
    # A prompt's result counts its last step only; the export has them all.
    quirks=Quirks(settle_s=0.25, usage="none", title_is_name=True, epilogue=read_export),
)
