"""The agents that a daemon knows: those that ship with coachman, and the configuration's own."""

from collections.abc import Mapping

from coachman_adapters import ADAPTERS
from coachman_adapters.acp.agents import Described
from coachman_adapters.conversation import Adapter

from .config import ACP, AgentInstance, Config


class Adapters(dict[str, Adapter]):
    """Adapters by name. A run may have one that the configuration no longer has.

    Such a run is read as plain ACP; where that is not what its agent was told, it ends ``lost``.
    """

    def __missing__(self, name: str) -> Adapter:
        return Described(name, (name,)).agent()


def adapters_of(config: Config) -> Mapping[str, Adapter]:
    """Every agent that a run may have."""
    own = {
        name: _described(name, instance)
        for name, instance in config.agents.items()
        if instance.adapter == ACP
    }
    return Adapters({**ADAPTERS, **own})


def _described(name: str, instance: AgentInstance) -> Adapter:
    return Described(
        name,
        instance.command,
        environment=(*instance.environment, *instance.env),
        credentials=instance.credentials,
        files=instance.files,
        credential_files=instance.credential_files,
        efforts=instance.efforts,
        mode=instance.mode,
        usage=instance.usage or "none",
        pricing=instance.pricing,
    ).agent()
