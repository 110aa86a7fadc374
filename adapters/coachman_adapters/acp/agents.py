"""Agents that need nothing but facts: adapters of other CLIs, and those a configuration names."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen

from coachman_adapters.acp.agent import AcpAgent
from coachman_adapters.acp.quirks import UUID, Quirks
from coachman_adapters.claude.agent import CLAUDE, SWITCHES
from coachman_adapters.codex.agent import CODEX
from coachman_adapters.conversation import AgentRequest, AgentSpec, LaunchPlan, UserFiles

CODEX_CONFIG: dict[str, Any] = {
    "analytics": {"enabled": False},
    "check_for_update_on_startup": False,
    "feedback": {"enabled": False},
}


# Without it the model may ask something in words in codex's own planning mode only.
ASKS_IN_WORDS = {"features": {"default_mode_request_user_input": True}}


def starts(
    *words: str, env: Mapping[str, str] | None = None, provider: str | None = None
) -> Callable[[AgentRequest], LaunchPlan]:
    """The launch plan of an agent that is told everything over its wire.

    ``provider``: the variable that it takes its provider's name from.
    """

    def launch(request: AgentRequest) -> LaunchPlan:
        named = {provider: request.provider} if provider and request.provider else {}
        return LaunchPlan(argv=("{executable}", *words), env={**(env or {}), **named})

    return launch


CLAUDE_AGENT_ACP = AcpAgent(
    spec=evolve(
        CLAUDE.spec,
        name="claude-agent-acp",
        title="Claude Agent (ACP)",
        executables=("claude-agent-acp",),
        native=(),
        takes_agent=False,
    ),
    launch=starts(
        env={**dict.fromkeys(SWITCHES, "1"), "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false"}
    ),
    # It would take a session's title for an id.
    quirks=Quirks(mode="default", session_form=UUID, cost="session"),
)


def _start_codex(request: AgentRequest) -> LaunchPlan:
    config = {**CODEX_CONFIG, **(ASKS_IN_WORDS if request.words else {})}
    env = {
        "CODEX_ACP_PROMPT_SUGGESTIONS": "false",
        "CODEX_CONFIG": json.dumps(config),
        "NO_BROWSER": "1",
    }
    return starts(env=env, provider="MODEL_PROVIDER")(request)


CODEX_ACP = AcpAgent(
    spec=evolve(
        CODEX.spec,
        name="codex-acp",
        title="Codex (ACP)",
        executables=("codex-acp",),
        native=(),
        pricing="openai",
    ),
    launch=_start_codex,
    quirks=Quirks(
        # Its own sandbox is off only where it asks for nothing.
        mode="read-only",
        free_mode="agent-full-access",
        logins={"CODEX_API_KEY": "api-key", "OPENAI_API_KEY": "api-key"},
        session_form=UUID,
        trouble=("_meta", "codex", "threadStatus", "type", "systemError"),
    ),
)


@frozen
class Described:
    """An agent of which only this is known. ``command``: its program's name and arguments.

    ``files`` and ``credential_files`` are below the user's home; ``usage`` as in `Quirks`.
    """

    name: str
    command: tuple[str, ...]
    environment: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    credential_files: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    mode: str | None = None
    usage: str = "none"
    pricing: str | None = None

    def agent(self) -> AcpAgent:
        """The adapter. What the agent cannot do shows when it is asked to."""
        executable, *words = self.command
        spec = AgentSpec(
            name=self.name,
            title=self.name,
            executables=(executable,),
            environment=tuple(dict.fromkeys((*self.environment, *self.credentials))),
            credentials=self.credentials,
            efforts=self.efforts,
            resumes=True,
            keeps=True,
            user_files=(UserFiles("", None, self.files, self.credential_files),),
            pricing=self.pricing,
        )
        quirks = Quirks(mode=self.mode, usage=self.usage, cost="session")
        return AcpAgent(spec, starts(*words), quirks)
