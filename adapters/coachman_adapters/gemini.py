"""Gemini CLI over ACP on stdio, and the usage in the chat that it records."""

import json
import re
from hashlib import sha256
from typing import Any

import msgspec

from coachman_adapters.acp.agent import AcpAgent
from coachman_adapters.acp.quirks import UUID, Conversed, Quirks
from coachman_adapters.conversation import (
    AgentRequest,
    AgentSpec,
    LaunchPlan,
    Seed,
    SessionFiles,
    Usage,
    UserFiles,
)
from coachman_adapters.counting import count

CREDENTIALS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
SETTINGS = (
    "GEMINI_MODEL",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
)
# Without one of these in its settings it loads no session, though it opens new ones.
LOGINS = {
    "GOOGLE_GENAI_USE_GCA": "oauth-personal",
    "GOOGLE_GENAI_USE_VERTEXAI": "vertex-ai",
    "GOOGLE_API_KEY": "vertex-ai",
    "GEMINI_API_KEY": "gemini-api-key",
}
DEFAULTS: dict[str, Any] = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ide": {"enabled": False},
}
USER_FILES = UserFiles(
    ".gemini",
    settings=("settings.json", "GEMINI.md", "agents", "commands", "policies", "skills"),
    credentials=("oauth_creds.json", "google_accounts.json", ".env"),
)
ENVIRONMENT = {
    # It would start itself anew as a child, and swallow signals in the parent.
    "GEMINI_CLI_NO_RELAUNCH": "true",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "NO_BROWSER": "1",
}
# A chat's file is named by the minute and the session: loading a session makes a new file,
# and in the minute of its creation that is the chat itself, which is lost. So the chat that is
# to be loaded gets a name of no minute first; and what is past in it is marked by its lines. The
# file that the last loading made has nothing of the chat, and would be loaded in its place.
LOAD = """\
set -- "$1" "$HOME"/.gemini/tmp/*/chats/session-*-"${1%%-*}".jsonl
old="${2%/*}/session-0000-${1%%-*}.jsonl"
if [ -f "$2" ]; then
  [ "$2" = "$old" ] || mv "$2" "$old"
  wc -l <"$old" >"$HOME/.gemini/past-$1"
  shift 2
  for new; do mv "$new" "$new.aside"; done
fi
exec "$0" --acp --approval-mode default"""
COUNT = """\
set -- "$1" "$HOME"/.gemini/tmp/*/chats/session-*-"${1%%-*}".jsonl
past=$(cat "$HOME/.gemini/past-$1" 2>/dev/null)
tail -n "+$((${past:-0} + 1))" "$2" | grep '^{"id":.*"tokens":{' || :"""


def _first(session: str) -> str:
    return session.partition("-")[0]


def _place(path: str, cwd: str) -> str:
    """By the directory that it works in, in a name of no minute: see `LOAD`."""
    folder = re.sub(r"[^a-z0-9]+", "-", cwd.rsplit("/", maxsplit=1)[-1].lower()).strip("-")
    session = path.rpartition("-")[2]
    return f"tmp/{folder or 'project'}/chats/session-0000-{session}"


def _holds(head: bytes, session: str) -> bool:
    return _told(head).get("sessionId") == session


def _rewrite(content: bytes, cwd: str) -> bytes:
    head, newline, rest = content.partition(b"\n")
    told = {**_told(head), "projectHash": sha256(cwd.encode()).hexdigest()}
    return json.dumps(told).encode() + newline + rest


def _told(content: bytes) -> dict[str, Any]:
    """What the chat's first line says."""
    try:
        told = json.loads(content.partition(b"\n")[0])
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


SESSIONS = SessionFiles(
    USER_FILES,
    ("tmp/*/chats/session-*-{session}.jsonl",),
    _place,
    _rewrite,
    in_name=_first,
    holds=_holds,
)


def _launch(request: AgentRequest) -> LaunchPlan:
    argv: tuple[str, ...] = ("{executable}", "--acp", "--approval-mode", "default")
    if request.session is not None:
        argv = ("/bin/sh", "-c", LOAD, "{executable}", request.session)
    defaults = DEFAULTS | _login(request.env_names)
    seed = Seed(".gemini/settings.json", json.dumps(defaults).encode(), defaults=True)
    return LaunchPlan(
        argv=argv,
        env=ENVIRONMENT,
        seeds=(seed,),
        epilogue=("/bin/sh", "-c", COUNT, "sh", "{session}"),
    )


def _login(names: frozenset[str]) -> dict[str, Any]:
    """The setting that says which credential of the environment counts."""
    login = next((LOGINS[name] for name in LOGINS if name in names), None)
    return {"security": {"auth": {"selectedType": login}}} if login else {}


class _Tokens(msgspec.Struct):
    input: float = 0
    output: float = 0
    cached: float = 0
    thoughts: float = 0
    tool: float = 0


class _Message(msgspec.Struct):
    id: str
    tokens: _Tokens
    model: str | None = None


def read_chat(output: bytes, part: Conversed) -> Usage | None:
    """The usage of a recorded chat's messages; None where none of them has any."""
    messages: dict[str, _Message] = {}
    for line in output.splitlines():
        try:
            message = msgspec.json.decode(line, type=_Message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        # A message is written again when its tools have ended.
        messages[message.id] = message
    if not messages:
        return None
    steps = [message.tokens for message in messages.values()]
    counters = {
        "input": sum(count(step.input + step.tool - step.cached) for step in steps),
        "cached_input": sum(count(step.cached) for step in steps),
        "output": sum(count(step.output) for step in steps),
        "reasoning": sum(count(step.thoughts) for step in steps),
    }
    models = [message.model for message in messages.values() if message.model]
    total = sum(counters.values())
    return Usage({**counters, "total": total}, model=models[-1] if models else None)


GEMINI = AcpAgent(
    spec=AgentSpec(
        name="gemini",
        title="Gemini CLI",
        executables=("gemini",),
        environment=(*CREDENTIALS, *SETTINGS),
        credentials=CREDENTIALS,
        resumes=True,
        keeps=True,
        user_files=(USER_FILES,),
        sessions=SESSIONS,
        hosts=("generativelanguage.googleapis.com:443", "cloudcode-pa.googleapis.com:443"),
        pricing="google",
    ),
    launch=_launch,
    # A prompt's result counts neither what was cached nor the thoughts; the chat has them.
    quirks=Quirks(
        replay_s=0.5,
        usage="none",
        asks_first=True,
        session_form=UUID,
        epilogue=read_chat,
    ),
)
