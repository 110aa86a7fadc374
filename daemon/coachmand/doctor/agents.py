"""Each agent: found, with a login, and its APIs reached from inside.

Its CLI is never run, not even for its version: that is what its package says.
"""

import os
from collections.abc import Collection, Iterator, Mapping

import trio
from attrs import frozen

from coachman.diagnosis import failed, ok, warning
from coachman.environment import carried
from coachman.results import Diagnosis
from coachman_adapters.conversation import Adapter, AgentSpec
from coachman_adapters.endpoints import PROVIDERS
from coachman_sandbox import network
from coachman_sandbox.executables import ExecutableError
from coachman_sandbox.network import NetworkError

from ..config_values import network_of
from ..runs.credentials.environment import environment_of
from ..runs.intake.adopted import source_of
from ..runs.intake.network import configured_words, own_destinations, told_destinations
from ..runs.preparing.gating import upstream_of
from ..runs.preparing.missing import missing_program, unknown_agent
from ..runs.preparing.program import Program, find_program, secret_names
from ..runs.services import Means
from .reaching import Destinations, reached
from .walls import configured_walls

# Where a variable came from, in words.
SOURCES = {"daemon": "the daemon's environment", "request": "your shell"}
AT_ONCE = 3


@frozen
class Patient:
    """One agent that is examined. ``wanted``: it was named, or is the one that runs have."""

    name: str
    adapter: Adapter
    environment: Mapping[str, str]
    sources: Mapping[str, str]
    wanted: bool

    @property
    def area(self) -> str:
        return f"agent {self.name}"


def named(means: Means) -> Mapping[str, str]:
    """The adapter's name of each agent that there is."""
    own = {name: each.adapter_of(name) for name, each in means.config.agents.items()}
    return {**{name: name for name in means.adapters}, **own}


def patients(means: Means, agent: str | None, lent: Mapping[str, str]) -> list[Patient]:
    """The agent of that name, or all. Raises RpcError."""
    there = named(means)
    if agent is not None and agent not in there:
        raise unknown_agent(means, f"cannot examine agent {agent!r}")
    chosen = [agent] if agent is not None else sorted(there)
    return [_patient(means, name, there[name], agent, lent) for name in chosen]


def _patient(
    means: Means, name: str, adapter_name: str, asked: str | None, lent: Mapping[str, str]
) -> Patient:
    adapter = means.adapters[adapter_name]
    spec = adapter.spec
    declared = {*spec.environment, *spec.credentials, *spec.locations}
    environment, sources = environment_of(carried(lent, declared), name, declared, means)
    wanted = name in (asked, means.config.agent)
    return Patient(name, adapter, environment, sources, wanted)


async def examined(means: Means, agent: str | None, lent: Mapping[str, str]) -> list[Diagnosis]:
    """Examine them, a few at a time. Raises RpcError for an agent that there is not."""
    there = patients(means, agent, lent)
    found: dict[str, list[Diagnosis]] = {}
    missing: list[str] = []
    places = trio.CapacityLimiter(AT_ONCE)

    async def examine(patient: Patient) -> None:
        async with places:
            program = await trio.to_thread.run_sync(_program, means, patient)
            if isinstance(program, ExecutableError):
                if patient.wanted:
                    found[patient.name] = [_missing(means, patient, program)]
                else:
                    missing.append(patient.name)
                return
            found[patient.name] = await _one(means, patient, program)

    async with trio.open_nursery() as nursery:
        for patient in there:
            nursery.start_soon(examine, patient)
    checks = [check for name in sorted(found) for check in found[name]]
    return [*checks, *_absent(sorted(missing), agent, sorted(found), means)]


def _absent(
    missing: list[str], agent: str | None, found: Collection[str], means: Means
) -> Iterator[Diagnosis]:
    if agent is not None:
        return
    own = [name for name in found if means.adapters[named(means)[name]].spec.executables]
    if not own:
        text = f"no agent is installed: none of {', '.join(missing)} is on PATH"
        yield warning("agents", "installed", text, "install one; -a demo shows how a run goes")
    elif missing:
        yield ok(
            "agents", "installed", f"not installed: {', '.join(missing)}", {"missing": missing}
        )


def _program(means: Means, patient: Patient) -> Program | ExecutableError:
    try:
        return find_program(patient.name, patient.adapter, means, patient.environment)
    except ExecutableError as error:
        return error


def _missing(means: Means, patient: Patient, error: ExecutableError) -> Diagnosis:
    refusal = missing_program(means, patient.name, patient.adapter, error)
    return failed(patient.area, "found", str(error), str(refusal.data["hint"]))


async def _one(means: Means, patient: Patient, program: Program) -> list[Diagnosis]:
    checks = [_found(patient, program)]
    if not patient.adapter.spec.executables:
        # Coachman's own, and the command of whoever starts a run, log in nowhere.
        return checks
    told = told_destinations(patient.name, patient.adapter, means, patient.environment)
    checks.append(await trio.to_thread.run_sync(_login, patient, bool(told)))
    try:
        destinations = await trio.to_thread.run_sync(_destinations, means, patient, told)
    except NetworkError as error:
        return [*checks, _unusable(patient, str(error))]
    return [*checks, await reached(means, patient, program, destinations)]


def _found(patient: Patient, program: Program) -> Diagnosis:
    version = f" {program.version}" if program.version else ""
    where = f", {program.path}" if program.path else ""
    about = {
        "path": program.path,
        "version": program.version,
        "sha256": program.sha256,
        "binds": list(program.access.binds),
    }
    return ok(patient.area, "found", f"{patient.adapter.spec.title}{version}{where}", about)


# --- its login ---


def _login(patient: Patient, elsewhere: bool) -> Diagnosis:
    """Whether there is a credential, by the name of where it is; its value is not looked at.

    ``elsewhere``: the user says where its API is, which may want none. Blocks.
    """
    names = [
        f"{name} from {SOURCES.get(patient.sources.get(name, ''), 'the configuration')}"
        for name in secret_names(patient.adapter, patient.environment)
    ]
    files, unreadable = _files(patient)
    if unreadable:
        text = f"{', '.join(unreadable)} cannot be read"
        return failed(patient.area, "credential", text, "give the file to you, with mode 600")
    if names or files:
        return ok(patient.area, "credential", ", ".join([*names, *files]), {"variables": names})
    spec = patient.adapter.spec
    wanted = " or ".join(_suggested(spec)) or "its variable"
    text = f"there is no login: neither a variable with its key nor a file of {spec.title}'s own"
    remedy = f"log in with {spec.title} itself, or set {wanted} in the shell that starts runs"
    # One that speaks to any provider may have a local one, or one that asks for no key.
    if patient.wanted and spec.hosts and not elsewhere:
        return failed(patient.area, "credential", text, remedy)
    return warning(patient.area, "credential", text, remedy)


def _suggested(spec: AgentSpec) -> list[str]:
    """Of the variables that hold a key, those of the agent's usual provider."""
    usual = PROVIDERS.get(spec.pricing or "", ((), ()))[0]
    return [name for name in spec.credentials if name in usual] or list(spec.credentials[:2])


def _files(patient: Patient) -> tuple[list[str], list[str]]:
    there: list[str] = []
    unreadable: list[str] = []
    for files in patient.adapter.spec.user_files:
        source = source_of(files, patient.environment)
        for name in files.credentials:
            path = os.path.join(source, name)
            if os.path.exists(path):
                (there if os.access(path, os.R_OK) else unreadable).append(path)
    return there, unreadable


# --- its network ---


def _destinations(means: Means, patient: Patient, told: tuple[str, ...]) -> Destinations:
    """Those of a run of it that names neither profile nor network. Blocks."""
    walls = configured_walls(means)
    words = network_of(configured_words(walls, means))
    own = own_destinations(
        patient.name, walls.inherits, patient.adapter, means, patient.environment
    )
    found = network.resolve(words, own)
    if found.kind == "gate":
        upstream_of(patient.environment)
    return Destinations(found, own, told)


def _unusable(patient: Patient, why: str) -> Diagnosis:
    remedy = "unset it, name one of http://, or configure `network` as none or host"
    if patient.wanted:
        return failed(patient.area, "network", why, remedy)
    return warning(patient.area, "network", why, remedy)
