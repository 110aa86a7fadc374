"""``profile.*``: what a run of each profile may touch."""

from typing import Any

import trio
from attrs import frozen

from coachman_sandbox import bubblewrap, profiles
from coachman_sandbox.executables import ExecutableError
from coachman_sandbox.policy import AgentAccess, PolicyError

from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.prepare import find_program
from .context import Context


@frozen
class Listed:
    """{name, facts} each."""

    profiles: list[dict[str, Any]]


@frozen
class ExplainParams:
    """A profile, and the agent whose program is to be shown in it."""

    profile: str
    agent: str | None = None


@frozen
class Explained:
    """The eight facts, and the policy as it is compiled: mounts, names of variables, arguments."""

    profile: str
    facts: dict[str, str]
    policy: dict[str, Any]


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method("profile.list", result=Listed, summary="The profiles of this version.")
    def list_(context: Context, params: Any) -> Listed:
        return Listed(
            [{"name": name, "facts": dict(p.facts)} for name, p in profiles.PROFILES.items()]
        )

    @registry.method(
        "profile.explain",
        params=ExplainParams,
        result=Explained,
        summary="A profile as facts and as the compiled policy.",
        errors=("NotFound",),
    )
    async def explain(context: Context, params: ExplainParams) -> Explained:
        try:
            facts = profiles.explain(params.profile)
        except PolicyError as error:
            raise RpcError("NotFound", str(error)) from error
        access = await trio.to_thread.run_sync(_access, context, params.agent)
        policy = profiles.preview(params.profile, access, context.services.boundary.host)
        return Explained(params.profile, facts, bubblewrap.describe(policy))


def _access(context: Context, agent: str | None) -> AgentAccess:
    services = context.services
    if agent is None:
        return AgentAccess()
    adapter = services.adapters.get(agent)
    if adapter is None:
        known = ", ".join(sorted(services.adapters))
        raise RpcError(
            "NotFound", f"cannot explain for {agent!r}: no such agent", f"agents: {known}"
        )
    try:
        program = find_program(agent, adapter, services, services.environment)
    except ExecutableError as error:
        raise RpcError("AgentFailed", str(error)) from error
    return program.access
