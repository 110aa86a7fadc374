"""An agent's program on this host, and what of it runs inside."""

import os
from collections.abc import Mapping

from attrs import frozen

from coachman_adapters.conversation import Adapter
from coachman_sandbox import executables
from coachman_sandbox.policy import AgentAccess

from ...build import installed_version
from ...config_profiles import writable
from ...evidence.state import StateDirectory
from ..facts.record import Record
from ..services import Means, Services


@frozen
class Program:
    """The agent's program, found on the host: what runs inside and what it needs bound."""

    path: str | None
    python: str
    access: AgentAccess
    sha256: str | None
    version: str | None


def find_program(
    agent: str,
    adapter: Adapter,
    services: Means,
    search: Mapping[str, str],
    *agent_roots: str,
    guests: bool = False,
) -> Program:
    """The agent's program on this host, outside of what agents write (``agent_roots`` too).

    The configuration's executable, else the first on the PATH of ``search``. With ``guests``
    coachman's own programs can be run beside it. Blocks. Raises `ExecutableError`.
    """
    spec, forbidden = (
        adapter.spec,
        forbidden_roots(services.state, *agent_roots, *writable(services.config)),
    )
    names, search = _searched(agent, spec.executables, services, search)
    python = executables.python_runtime()
    found = None
    if names:
        found = executables.resolve(names, search, native=spec.native, forbidden=forbidden)
    guests = guests or spec.runtime == "python"
    access = executables.agent_access(
        found, env={}, credentials={}, python=python if guests else None
    )
    if found is None and spec.runtime == "python":
        # Coachman's own program: its version, and the interpreter's hash.
        return Program(None, python.path, access, python.sha256, installed_version())
    return Program(
        found.path if found else None,
        python.path,
        access,
        found.sha256 if found else None,
        found.version if found else None,
    )


def _searched(
    agent: str, names: tuple[str, ...], services: Means, search: Mapping[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    instance = services.config.agents.get(agent)
    if not names or instance is None or instance.executable is None:
        return names, search
    directory, name = os.path.split(instance.executable)
    return (name,), {**search, "PATH": f"{directory}:{search.get('PATH', '')}"}


def forbidden_roots(state: StateDirectory, *roots: str) -> tuple[str, ...]:
    """Canonical directories that agents may write: no executable may lie there."""
    return tuple(os.path.realpath(path) for path in (str(state.root), str(state.worktrees), *roots))


def program_of(record: Record, services: Services, environment: Mapping[str, str]) -> Program:
    """The program of a run's agent. Blocks. Raises `ExecutableError`."""
    adapter, roots = services.adapters[record.adapter], record.repository.roots
    guests = record.delegate is not None
    return find_program(record.agent, adapter, services, environment, *roots, guests=guests)


def secret_names(adapter: Adapter, environment: Mapping[str, str]) -> list[str]:
    """The names of the agent's credentials that have a value."""
    return [name for name in adapter.spec.credentials if environment.get(name)]


def command_of(argv: tuple[str, ...], program: Program) -> tuple[str, ...]:
    """A plan's words with the program's path in them."""
    words = {"{executable}": program.path or "", "{python}": program.python}
    return tuple(words.get(word, word) for word in argv)
