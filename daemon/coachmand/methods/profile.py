"""``profile.*``: what a run of each profile may touch."""

from typing import Any

import trio
from attrs import frozen

from coachman import results
from coachman_sandbox import bubblewrap, network, profiles
from coachman_sandbox.executables import ExecutableError
from coachman_sandbox.policy import AgentAccess, PolicyError
from coachman_sandbox.seccomp import FilterMissing

from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.gating import connected
from ..runs.prepare import find_program
from .context import Context


@frozen
class ExplainParams:
    """A profile, and the agent whose program is to be shown in it."""

    profile: str
    agent: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "profile.list", result=results.ProfilePage, summary="The profiles of this version."
    )
    def list_(context: Context, params: Any) -> results.ProfilePage:
        known = profiles.PROFILES.items()
        return {"profiles": [{"name": name, "facts": dict(p.facts)} for name, p in known]}

    @registry.method(
        "profile.explain",
        params=ExplainParams,
        result=results.ProfileExplained,
        summary="A profile as facts and as the compiled policy.",
        errors=("NotFound", "BoundaryUnavailable"),
    )
    async def explain(context: Context, params: ExplainParams) -> results.ProfileExplained:
        try:
            facts = profiles.explain(params.profile)
        except PolicyError as error:
            raise RpcError("NotFound", str(error)) from error
        access = await trio.to_thread.run_sync(_access, context, params.agent)
        policy = profiles.preview(params.profile, access, context.services.boundary.host)
        adapter = context.services.adapters.get(params.agent or "")
        own = adapter.spec.hosts if params.agent and adapter else ()
        words = (profiles.PROFILES[params.profile].network,)
        policy = connected(policy, network.resolve(words, own))
        try:
            compiled = bubblewrap.describe(policy)
        except FilterMissing as error:
            raise RpcError("BoundaryUnavailable", str(error)) from error
        return {"profile": params.profile, "facts": facts, "policy": compiled}


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
