"""codex: `codex exec` for runs that end by themselves, its app server for all others."""

from coachman_adapters.codex.agent import CODEX

__all__ = ["CODEX"]
