"""Agents as sans-IO conversations: what each is, how it starts, how it is talked to."""

from coachman_adapters.acp.agents import CLAUDE_AGENT_ACP, CODEX_ACP
from coachman_adapters.claude import CLAUDE
from coachman_adapters.codex import CODEX
from coachman_adapters.command import COMMAND
from coachman_adapters.conversation import Adapter
from coachman_adapters.demo import DEMO
from coachman_adapters.gemini import GEMINI
from coachman_adapters.opencode import OPENCODE
from coachman_adapters.pi import PI

_AGENTS: tuple[Adapter, ...] = (
    CLAUDE,
    CLAUDE_AGENT_ACP,
    CODEX,
    CODEX_ACP,
    COMMAND,
    DEMO,
    GEMINI,
    OPENCODE,
    PI,
)
ADAPTERS: dict[str, Adapter] = {adapter.spec.name: adapter for adapter in _AGENTS}
"""Every known agent by its name."""
