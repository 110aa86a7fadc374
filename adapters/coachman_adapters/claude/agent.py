"""Claude Code: what it is and how it is started."""

import json
import re
from typing import Any

from attrs import frozen

from coachman_adapters.claude.conversation import ClaudeConversation
from coachman_adapters.claude.handshake import is_session
from coachman_adapters.claude.questions import TOOL as QUESTION
from coachman_adapters.conversation import (
    AgentRequest,
    AgentSpec,
    Conversation,
    LaunchPlan,
    SessionFiles,
    UserFiles,
)
from coachman_adapters.logins import Login, Renewal

CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
)
SETTINGS = (
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_BEDROCK_BASE_URL",
    "ANTHROPIC_BETAS",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_FOUNDRY_BASE_URL",
    "ANTHROPIC_FOUNDRY_RESOURCE",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION",
    "ANTHROPIC_VERTEX_BASE_URL",
    "ANTHROPIC_VERTEX_PROJECT_ID",
    "API_TIMEOUT_MS",
    "AWS_REGION",
    "BASH_DEFAULT_TIMEOUT_MS",
    "BASH_MAX_TIMEOUT_MS",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_MAX_RETRIES",
    "CLAUDE_CODE_MAX_TURNS",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
    "CLOUD_ML_REGION",
    "DISABLE_PROMPT_CACHING",
    "MAX_THINKING_TOKENS",
)
NATIVE = ("bin/claude.exe", "bin/claude")
SWITCHES = (
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_BUG_COMMAND",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_TELEMETRY",
)
# It renews a login that is about to expire as soon as it starts, before it is asked anything. At
# the end of its input it would leave, with the answer still on its way.
_HELLO = '{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}'
_RENEW = """\
file="$HOME/.claude/.credentials.json" before=$(cat "$HOME/.claude/.credentials.json")
mkfifo /tmp/in
{ "$0" -p --input-format stream-json --output-format stream-json --verbose </tmp/in
  code=$?; : >/tmp/gone; exit $code; } &
exec 3>/tmp/in
printf '%s\\n' "$1" >&3
until [ -e /tmp/gone ] || [ "$(cat "$file")" != "$before" ]; do sleep 0.1; done
exec 3>&-
wait $!"""
LOGIN = Login(
    ".credentials.json",
    access=("claudeAiOauth", "accessToken"),
    refresh=("claudeAiOauth", "refreshToken"),
    expires=("claudeAiOauth", "expiresAt"),
    account=(
        ("organizationUuid",),
        ("claudeAiOauth", "organizationUuid"),
        ("claudeAiOauth", "accountUuid"),
    ),
    instead=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_VERTEX",
    ),
    renewal=Renewal(
        executables=("claude",),
        argv=("/bin/sh", "-c", _RENEW, "{executable}", _HELLO),
        hosts=("platform.claude.com:443", "api.anthropic.com:443"),
        native=NATIVE,
        env=dict.fromkeys(SWITCHES, "1"),
    ),
)
USER_FILES = UserFiles(
    ".claude",
    "CLAUDE_CONFIG_DIR",
    settings=(
        "settings.json",
        "CLAUDE.md",
        "agents",
        "commands",
        "output-styles",
        "rules",
        "skills",
    ),
    credentials=(LOGIN.path,),
    logins=(LOGIN,),
)
SESSIONS = SessionFiles(
    USER_FILES,
    ("projects/*/{session}.jsonl",),
    # Its sessions are by the directory that it works in.
    place=lambda path, cwd: f"projects/{re.sub(r'[^A-Za-z0-9]', '-', cwd)}/{path.split('/')[-1]}",
)
MODE = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
STREAM = ("-p", *MODE, "--include-partial-messages", "--permission-prompt-tool", "stdio")
# A run ends with its turn: nothing is to wake the model later, or to go on without it.
TIMELESS = ("CronCreate", "CronDelete", "CronList", "Monitor", "ScheduleWakeup", "Workflow")
# The run has a worktree of its own already.
ELSEWHERE = ("EnterWorktree", "ExitWorktree")
# By itself it does not ask about commands that only read, nor about what the user's own rules
# allow; a rule that asks goes before both. Where a person decides, its own rules are what that
# person knows, and only with them it offers to allow for the whole session.
ASKS = ("Bash", "Edit", "NotebookEdit", "WebFetch", "WebSearch", "Write")


def _settings(request: AgentRequest) -> dict[str, Any]:
    asks = {} if request.permissions == "ask" else {"ask": list(ASKS)}
    # A sandbox of its own would not start within ours, and would let commands run unasked.
    return {"permissions": {"defaultMode": "default", **asks}, "sandbox": {"enabled": False}}


def _without(request: AgentRequest) -> tuple[str, ...]:
    """The tools that it is not to have. A question needs somebody who answers."""
    nobody = () if request.permissions == "ask" else (QUESTION,)
    return (*nobody, *TIMELESS, *ELSEWHERE)


@frozen
class ClaudeAgent:
    """The `Adapter` of Claude Code."""

    spec: AgentSpec

    def plan(self, request: AgentRequest) -> LaunchPlan:
        """Its one mode for all runs, with what this one asked for."""
        flags = {
            "--settings": json.dumps(_settings(request), separators=(",", ":")),
            "--disallowedTools": ",".join(_without(request)),
            # What is no id is refused by the conversation, which then needs no session at all.
            "--resume": request.session if is_session(request.session) else None,
            "--model": request.model,
            "--effort": request.effort,
            "--agent": request.as_agent,
        }
        words = [word for flag, value in flags.items() if value for word in (flag, value)]
        home = {"CLAUDE_CONFIG_DIR": f"{request.home}/{USER_FILES.directory}"}
        switches = dict.fromkeys(SWITCHES, "1")
        return LaunchPlan(argv=("{executable}", *STREAM, *words), env={**home, **switches})

    def converse(self, request: AgentRequest) -> Conversation:
        return ClaudeConversation(request)


CLAUDE = ClaudeAgent(
    AgentSpec(
        name="claude",
        title="Claude Code",
        executables=("claude",),
        native=NATIVE,
        environment=(*CREDENTIALS, *SETTINGS),
        credentials=CREDENTIALS,
        efforts=("low", "medium", "high", "xhigh", "max"),
        resumes=True,
        keeps=True,
        takes_agent=True,
        user_files=(USER_FILES,),
        sessions=SESSIONS,
        # The second is where somebody's own renews its token who has one in the environment.
        hosts=("api.anthropic.com:443", "platform.claude.com:443"),
        pricing="anthropic",
        reports_cost=True,
    )
)
