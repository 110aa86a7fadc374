"""``agent.*``: which agents there are, whether they are installed, what they want."""

from collections.abc import Mapping

import trio
from attrs import frozen

from coachman import results
from coachman_adapters.conversation import Adapter
from coachman_sandbox.executables import ExecutableError

from ..rpc.registry import Registry
from ..runs.intake.profile import walls_of
from ..runs.preparing.missing import unknown_agent
from ..runs.preparing.program import find_program
from ..runs.services import Means
from .context import Context


@frozen
class ListParams:
    """One agent, or all; looked for on ``path`` (the daemon's own PATH without).

    ``profile`` is the one whose names are told, by default the configured one.
    """

    agent: str | None = None
    path: str | None = None
    profile: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "agent.list",
        params=ListParams,
        result=results.AgentPage,
        summary="Agents, and the names of the variables each wants.",
        errors=("NotFound",),
    )
    async def list_(context: Context, params: ListParams) -> results.AgentPage:
        services = context.services
        named = {name: _adapter_name(services, name) for name in services.config.agents}
        all_agents = {**{name: name for name in services.adapters}, **named}
        if params.agent is not None and params.agent not in all_agents:
            raise unknown_agent(services, f"cannot find agent {params.agent!r}")
        wanted = [params.agent] if params.agent else sorted(all_agents)
        search = dict(services.environment)
        if params.path is not None:
            search["PATH"] = params.path
        rows = [(name, services.adapters[all_agents[name]], services, search) for name in wanted]
        walls = walls_of(params.profile or services.config.profile, services)
        crossing = list(walls.environment) if walls else []
        found = [await trio.to_thread.run_sync(_row, *row) for row in rows]
        return {"agents": [{**row, "profile_environment": crossing} for row in found]}


def _adapter_name(services: Means, name: str) -> str:
    return services.config.agents[name].adapter_of(name)


def _row(name: str, adapter: Adapter, services: Means, search: Mapping[str, str]) -> results.Agent:
    spec = adapter.spec
    row: results.Agent = {
        "name": name,
        "adapter": spec.name,
        "title": spec.title,
        "environment": list(spec.environment),
        "locations": list(spec.locations),
        "credentials": list(spec.credentials),
        "efforts": list(spec.efforts),
        "resumes": spec.resumes,
        "keeps": spec.keeps,
        "takes_agent": spec.takes_agent,
        "takes_model": spec.takes_model,
        "takes_argv": spec.takes_argv,
        "installed": True,
        "path": None,
        "version": None,
        "sha256": None,
        "note": None,
    }
    try:
        program = find_program(name, adapter, services, search)
    except ExecutableError as error:
        return {**row, "installed": False, "note": str(error)}
    row["path"], row["version"], row["sha256"] = program.path, program.version, program.sha256
    return row
