"""Claude Code as an agent."""

from coachman_adapters.claude.agent import CLAUDE

__all__ = ["CLAUDE"]
