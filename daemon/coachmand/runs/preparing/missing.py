"""What is said of an agent that is not there, and what to do about it."""

from coachman_adapters.conversation import Adapter
from coachman_sandbox.executables import ExecutableError

from ... import config_profiles
from ...rpc.errors import RpcError
from ..services import Means

RESTART = ("coachman", "daemon", "restart")
CHANGED = f"the configuration was changed since the daemon started: {' '.join(RESTART)}"


def no_agent(services: Means) -> RpcError:
    """The refusal of a run that names none."""
    text = "cannot start: no agent is named and none is configured"
    known = ", ".join(sorted(services.adapters))
    return _refusal(services, "InvalidParams", text, f"name one with -a: {known}")


def unknown_agent(services: Means, text: str) -> RpcError:
    """The refusal of a name that no agent has."""
    names = sorted({*services.adapters, *services.config.agents})
    return _refusal(services, "NotFound", text, f"agents: {', '.join(names)}")


def unknown_profile(services: Means, text: str, name: str = "InvalidParams") -> RpcError:
    """The refusal of a name that no profile has."""
    known = ", ".join(config_profiles.names(services.config))
    return _refusal(services, name, text, f"there are {known}")


def missing_program(
    services: Means, name: str, adapter: Adapter, error: ExecutableError
) -> RpcError:
    """The refusal of an agent whose program this host does not have."""
    instance, title = services.config.agents.get(name), adapter.spec.title
    hint = f"install {title} and have it on PATH"
    if instance is not None and instance.executable:
        hint = f"install {instance.executable}, or mend `executable` of [agents.{name}]"
    elif instance is not None and instance.command:
        program = instance.command[0]
        hint = f"install {program} and have it on PATH, or mend `command` of [agents.{name}]"
    text = f"cannot start {adapter.spec.name}: {error}"
    return _refusal(services, "AgentFailed", text, hint, ("coachman", "agents"))


def _refusal(services: Means, name: str, text: str, hint: str, *next: tuple[str, ...]) -> RpcError:
    """What the daemon read when it started may be all that is wrong."""
    if services.config_file.has_changed():
        return RpcError(name, text, CHANGED, next=[RESTART])
    return RpcError(name, text, hint, next=next)
