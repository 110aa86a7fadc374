"""``profile.*``: what a run of each profile may touch."""

from typing import Any

import trio
from attrs import frozen

from coachman import results
from coachman_sandbox import bubblewrap, network, profiles
from coachman_sandbox.executables import ExecutableError
from coachman_sandbox.policy import AgentAccess, PolicyError
from coachman_sandbox.seccomp import FilterMissing

from .. import config_profiles
from ..config import Config
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.intake.profile import walls_of
from ..runs.preparing.gating import connected
from ..runs.preparing.missing import unknown_profile
from ..runs.preparing.program import find_program
from .context import Context


@frozen
class ExplainParams:
    """A profile, and the agent whose program is to be shown in it."""

    profile: str
    agent: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "profile.list",
        result=results.ProfilePage,
        summary="The profiles of this version, and those of the configuration.",
    )
    def list_(context: Context, params: Any) -> results.ProfilePage:
        config = context.services.config
        return {"profiles": [_row(config, name) for name in config_profiles.names(config)]}

    @registry.method(
        "profile.explain",
        params=ExplainParams,
        result=results.ProfileExplained,
        summary="A profile as facts and as the compiled policy.",
        errors=("NotFound", "BoundaryUnavailable"),
    )
    async def explain(context: Context, params: ExplainParams) -> results.ProfileExplained:
        walls = _walls(context, params.profile)
        access = await trio.to_thread.run_sync(_access, context, params.agent)
        try:
            policy = profiles.preview(walls, access, context.services.boundary.host)
        except PolicyError as error:
            raise RpcError("BoundaryUnavailable", f"cannot explain: {error}") from error
        adapter = context.services.adapters.get(params.agent or "")
        own = adapter.spec.hosts if params.agent and adapter else ()
        policy = connected(policy, network.resolve(walls.network, own))
        try:
            compiled = bubblewrap.describe(policy)
        except FilterMissing as error:
            raise RpcError("BoundaryUnavailable", str(error)) from error
        return {"profile": params.profile, "facts": dict(walls.facts), "policy": compiled}


def _row(config: Config, name: str) -> results.Profile:
    found = config_profiles.find(config, name)
    assert found is not None
    walls, custom = found
    row: results.Profile = {"name": name, "facts": dict(walls.facts), "inherits": None}
    if custom is not None:
        settings = config.profiles[name]
        row["inherits"], row["trusted"] = settings.inherits, settings.trusted
    return row


def _walls(context: Context, name: str) -> profiles.Profile:
    walls = walls_of(name, context.services)
    if walls is None:
        text = f"cannot explain {name!r}: there is no such profile"
        raise unknown_profile(context.services, text, "NotFound")
    return walls


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
        raise RpcError(
            "AgentFailed",
            f"cannot explain for {agent}: {error}",
            f"here the daemon's own PATH counts: name it as `executable` of [agents.{agent}], or "
            f"say coachman run -a {agent} --dry-run, which looks on yours",
        ) from error
    return program.access
