"""pi as an agent."""

from coachman_adapters.pi.agent import PI

__all__ = ["PI"]
