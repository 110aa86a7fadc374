"""pi: what it is and how it is started."""

import json

from attrs import frozen

from coachman_adapters.conversation import (
    AgentRequest,
    AgentSpec,
    Conversation,
    LaunchPlan,
    SessionFiles,
    UserFiles,
)
from coachman_adapters.logins import Login, Renewal
from coachman_adapters.pi.conversation import PiConversation
from coachman_adapters.pi.session import LEVELS, is_session

EXTENSION = "/run/coachman/pi_permissions.js"
CREDENTIALS = (
    "AI_GATEWAY_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_OAUTH_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "BASETEN_API_KEY",
    "CEREBRAS_API_KEY",
    "CLOUDFLARE_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_CLOUD_API_KEY",
    "GROQ_API_KEY",
    "HF_TOKEN",
    "KIMI_API_KEY",
    "MINIMAX_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "NVIDIA_API_KEY",
    "OPENAI_API_KEY",
    "OPENCODE_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "ZAI_API_KEY",
)
SETTINGS = (
    "AWS_REGION",
    "AZURE_OPENAI_API_VERSION",
    "AZURE_OPENAI_BASE_URL",
    "AZURE_OPENAI_DEPLOYMENT_NAME_MAP",
    "AZURE_OPENAI_RESOURCE_NAME",
    "CLOUDFLARE_ACCOUNT_ID",
    "CLOUDFLARE_GATEWAY_ID",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
)
# Offline is about catalogues, updates and packages; models are reached all the same.
ENVIRONMENT = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
# Whose refresh tokens serve once. It renews one that has expired when it is asked for it.
_ROTATING = {
    "anthropic": ("platform.claude.com:443",),
    "openai-codex": ("auth.openai.com:443",),
}


def _login(provider: str, hosts: tuple[str, ...]) -> Login:
    return Login(
        "auth.json",
        access=(provider, "access"),
        refresh=(provider, "refresh"),
        expires=(provider, "expires"),
        account=((provider, "accountId"),),
        withheld="",
        provider=provider,
        renewal=Renewal(
            executables=("pi",),
            argv=("{executable}", "auth", "check", "--provider", provider, "--json"),
            hosts=hosts,
            env=ENVIRONMENT,
        ),
    )


USER_FILES = UserFiles(
    ".pi/agent",
    "PI_CODING_AGENT_DIR",
    settings=(
        "settings.json",
        "models.json",
        "mcp.json",
        "AGENTS.md",
        "AGENTS.override.md",
        "CLAUDE.md",
        "SYSTEM.md",
        "APPEND_SYSTEM.md",
        "prompts",
        "skills",
        "extensions",
    ),
    credentials=("auth.json",),
    logins=tuple(_login(provider, hosts) for provider, hosts in _ROTATING.items()),
    endpoints={
        "models.json": ("providers",),
        "settings.json": ("defaultProvider", "defaultModel"),
    },
)


def _place(path: str, cwd: str) -> str:
    """Its sessions are by the directory that it works in."""
    return f"sessions/--{cwd.strip('/').replace('/', '-')}--/{path.rsplit('/', maxsplit=1)[-1]}"


def _rewrite(content: bytes, cwd: str) -> bytes:
    """A session that names another directory is not opened, but offered as a fork."""
    head, newline, rest = content.partition(b"\n")
    try:
        told = json.loads(head)
    except ValueError:
        return content
    return json.dumps({**told, "cwd": cwd}).encode() + newline + rest


SESSIONS = SessionFiles(USER_FILES, ("sessions/*/*_{session}.jsonl",), _place, _rewrite)


@frozen
class PiAgent:
    """The `Adapter` of pi."""

    spec: AgentSpec

    def plan(self, request: AgentRequest) -> LaunchPlan:
        """RPC mode, with our extension and what the run asked for."""
        flags = {
            "--provider": request.provider,
            "--model": request.model,
            "--thinking": LEVELS.get(request.effort or ""),
            # What is no id is refused by the conversation, which then needs no session at all.
            "--session": request.session if is_session(request.session or "") else None,
        }
        words = [word for flag, value in flags.items() if value for word in (flag, value)]
        argv = ("{executable}", "--mode", "rpc", "--extension", EXTENSION, *words)
        return LaunchPlan(argv=argv, env=ENVIRONMENT)

    def converse(self, request: AgentRequest) -> Conversation:
        return PiConversation(request)


PI = PiAgent(
    AgentSpec(
        name="pi",
        title="pi",
        executables=("pi",),
        environment=(*CREDENTIALS, *SETTINGS),
        credentials=CREDENTIALS,
        efforts=tuple(LEVELS),
        resumes=True,
        keeps=True,
        reports_cost=True,
        user_files=(USER_FILES,),
        sessions=SESSIONS,
    )
)
