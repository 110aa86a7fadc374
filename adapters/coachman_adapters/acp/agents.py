"""Agents that need nothing but facts: adapters of other CLIs, and those a configuration names."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from coachman_adapters.acp.agent import AcpAgent
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.claude.agent import CLAUDE, SWITCHES
from coachman_adapters.codex.agent import CODEX
from coachman_adapters.conversation import AgentRequest, LaunchPlan

CODEX_CONFIG: dict[str, Any] = {
    "analytics": {"enabled": False},
    "check_for_update_on_startup": False,
    "feedback": {"enabled": False},
}


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
    quirks=Quirks(mode="default", cost="session"),
)
CODEX_ACP = AcpAgent(
    spec=evolve(
        CODEX.spec,
        name="codex-acp",
        title="Codex (ACP)",
        executables=("codex-acp",),
        native=(),
        pricing="openai",
    ),
    launch=starts(
        env={"CODEX_CONFIG": json.dumps(CODEX_CONFIG), "NO_BROWSER": "1"},
        provider="MODEL_PROVIDER",
    ),
    quirks=Quirks(
        # Its own sandbox is off only where it asks for nothing.
        mode="read-only",
        free_mode="agent-full-access",
        logins={"CODEX_API_KEY": "api-key", "OPENAI_API_KEY": "api-key"},
        trouble=("_meta", "codex", "threadStatus", "type", "systemError"),
    ),
)
