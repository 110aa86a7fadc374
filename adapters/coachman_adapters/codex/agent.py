"""The facts about codex, and how it is started."""

import re
from typing import Any

import msgspec
from attrs import frozen

from coachman_adapters.codex import rollout
from coachman_adapters.codex.exec import ExecConversation
from coachman_adapters.codex.server import ServerConversation
from coachman_adapters.conversation import (
    AgentRequest,
    AgentSpec,
    Conversation,
    LaunchPlan,
    SessionFiles,
    UserFiles,
)
from coachman_adapters.logins import Login, Renewal

KEY = "CODEX_API_KEY"
CREDENTIALS = (
    "AZURE_OPENAI_API_KEY",
    "CEREBRAS_API_KEY",
    KEY,
    "DEEPSEEK_API_KEY",
    "FIREWORKS_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "MOONSHOT_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
)
SETTINGS = ("OPENAI_ORGANIZATION", "OPENAI_PROJECT")
# The shim starts the binary of a package of its own, beside it or below it.
_TARGETS = (("x64", "x86_64"), ("arm64", "aarch64"))
NATIVE = tuple(
    f"{place}codex-linux-{short}/vendor/{long}-unknown-linux-musl/bin/codex"
    for place in ("node_modules/@openai/", "../")
    for short, long in _TARGETS
)
# Its server renews a login where its client asks for that. It leaves at the end of its input.
_ASKED = (
    '{"id":1,"method":"initialize","params":{"clientInfo":{"name":"coachman","version":"1"}}}',
    '{"method":"initialized"}',
    '{"id":2,"method":"account/read","params":{"refreshToken":true}}',
)
_RENEW = """\
mkfifo /tmp/over
{ printf '%s\\n' "$@"; cat /tmp/over; } | "$0" app-server -c 'cli_auth_credentials_store="file"' |
  { grep -m 1 '"id":2'; : >/tmp/over; }"""
LOGIN = Login(
    "auth.json",
    access=("tokens", "access_token"),
    refresh=("tokens", "refresh_token"),
    expires=None,
    account=(("tokens", "account_id"),),
    claims=(("https://api.openai.com/auth", "chatgpt_account_id"),),
    beside=(("tokens", "id_token"), ("last_refresh",)),
    # A file without the member would be none of its own.
    withheld="",
    instead=(KEY,),
    renewal=Renewal(
        executables=("codex",),
        argv=("/bin/sh", "-c", _RENEW, "{executable}", *_ASKED),
        hosts=("auth.openai.com:443", "chatgpt.com:443"),
        native=NATIVE,
    ),
)
USER_FILES = UserFiles(
    ".codex",
    "CODEX_HOME",
    settings=(
        "config.toml",
        "AGENTS.md",
        "AGENTS.override.md",
        "agents",
        "hooks.json",
        "prompts",
        "rules",
        "skills",
    ),
    credentials=(LOGIN.path,),
    logins=(LOGIN,),
    endpoints={
        "config.toml": (
            *("model", "model_provider", "model_providers"),
            *("openai_base_url", "chatgpt_base_url"),
        )
    },
)
SESSIONS = SessionFiles(
    USER_FILES, ("sessions/*/*/*/rollout-*-{session}.jsonl",), place=lambda path, _cwd: path
)
CONFIG: tuple[tuple[str, Any], ...] = (
    ("check_for_update_on_startup", False),
    ("analytics.enabled", False),
    ("feedback.enabled", False),
    ("sandbox_mode", "danger-full-access"),
)
# Without it the model may ask something in words in codex's own planning mode only.
ASKS_IN_WORDS = "features.default_mode_request_user_input"
# The boundary is coachman's own. In codex's sandbox a command may not even be told of.
BYPASS = "--dangerously-bypass-approvals-and-sandbox"
# exec alone would take the key from the environment.
LOG_IN = f'printenv {KEY} | "$0" login --with-api-key >&2 && exec "$0" "$@"'
_THREAD = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@frozen
class CodexAgent:
    """codex as an `Adapter`: two ways to run it behind one name."""

    spec: AgentSpec

    def plan(self, request: AgentRequest) -> LaunchPlan:
        """Raises ValueError for a session that is no thread's id: exec would begin a new one."""
        if request.session is not None and not _THREAD.fullmatch(request.session):
            raise ValueError(
                f"cannot resume session {request.session[:100]}: codex's threads have UUIDs; "
                "see the session of the run to go on with"
            )
        return _exec(request) if is_bounded(request) else _server(request)

    def converse(self, request: AgentRequest) -> Conversation:
        if is_bounded(request):
            return ExecConversation(request)
        return ServerConversation(request)


def is_bounded(request: AgentRequest) -> bool:
    """Whether nothing will have to be said to codex once it has its prompt."""
    return not request.keep and request.permissions == "allow" and not request.judged


def _exec(request: AgentRequest) -> LaunchPlan:
    chosen = (("model_reasoning_effort", request.effort), ("model_provider", request.provider))
    words = ["{executable}", "exec", "--json", BYPASS, "--skip-git-repo-check", *_config(*chosen)]
    if request.model is not None:
        words += ["-m", request.model]
    if request.session is not None:
        words += ["resume", request.session]
    return LaunchPlan(argv=(*words, "-"), epilogue=rollout.EPILOGUE)


def _server(request: AgentRequest) -> LaunchPlan:
    asks = ((ASKS_IN_WORDS, True),) if request.words else ()
    words = ("{executable}", "app-server", *_config(*asks))
    if KEY in request.env_names:
        return LaunchPlan(argv=("/bin/sh", "-c", LOG_IN, *words))
    return LaunchPlan(argv=words)


def _config(*chosen: tuple[str, Any]) -> list[str]:
    """Configuration on top of the user's; values are TOML, of which JSON's scalars are a part."""
    given = [*CONFIG, *((name, value) for name, value in chosen if value is not None)]
    pairs = [f"{name}={msgspec.json.encode(value).decode()}" for name, value in given]
    return [word for pair in pairs for word in ("-c", pair)]


CODEX = CodexAgent(
    AgentSpec(
        name="codex",
        title="Codex",
        executables=("codex",),
        native=NATIVE,
        environment=(*CREDENTIALS, *SETTINGS),
        credentials=CREDENTIALS,
        # What a model takes differs; the others are refused by the model's own API.
        efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"),
        resumes=True,
        keeps=True,
        user_files=(USER_FILES,),
        sessions=SESSIONS,
        hosts=("api.openai.com:443", "chatgpt.com:443", "auth.openai.com:443"),
    )
)
