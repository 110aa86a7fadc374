"""Renew one login: by its agent's own program, in a sandbox in which nothing else happens.

The refresh token goes into no run. It goes into a home of its own, beside which there is
neither a prompt nor a repository, and what comes out of it goes to the user's file. A token
that was used is void, so the one that came for it must not be lost: what is done is on record
before it is done, its keeper outlives the daemon, and whoever finds the record finishes it.
"""

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, frozen

from coachman_adapters import logins
from coachman_adapters.conversation import UserFiles
from coachman_adapters.logins import Login, LoginError, Renewal
from coachman_sandbox import environment as crossing
from coachman_sandbox import executables, network, profiles
from coachman_sandbox.bubblewrap import compile_policy
from coachman_sandbox.host import read_host
from coachman_sandbox.policy import Place

from ... import durable
from ...evidence import userlogin
from ...evidence.rundir import encode_json, read_json
from ...evidence.seeds import read_file, write_seed
from ...failpoints import reach
from ...repos.errors import RepoError
from ..attempts import beside
from ..facts.clock import boottime_s
from ..facts.members import Site
from ..keepers.starting import KeeperError, end_keeper, keeper_alive, read_exit
from ..preparing.gating import connected, upstream_of
from ..preparing.prepare import Launch
from ..preparing.program import Program, command_of, find_program, forbidden_roots
from ..services import Services

LIMIT_S = 60.0
# Its keeper ends what takes longer.
MARGIN_S = 10.0
POLL_S = 0.05
KEY_CHARACTERS = 20
RECORD = "renewal.json"
RENEWED, KEPT, REFUSED = "renewed", "kept", "refused"
FAULTS = (KeeperError, RepoError, executables.ExecutableError, OSError, ValueError)


@frozen
class Own:
    """A login of the user's, at ``path``; ``files`` are those that it is one of."""

    path: str
    files: UserFiles
    login: Login

    @property
    def key(self) -> str:
        """One name for it, whoever asks."""
        named = f"{self.path}\0{self.login.provider}"
        return hashlib.sha256(os.fsencode(named)).hexdigest()[:KEY_CHARACTERS]

    @property
    def inside(self) -> str:
        """Where it lies in an agent's private home."""
        return os.path.join(self.files.directory, self.login.path)


class ChangedError(Exception):
    """Somebody else wrote the login meanwhile."""


@frozen
class Outcome:
    """``renewed``; ``kept`` as somebody else made it meanwhile; ``refused``, and ``why``."""

    kind: str
    why: str | None = None


@frozen
class Means:
    """What a renewal is started with: an agent's name and adapter, a caller's variables."""

    agent: str
    adapter: str
    environment: Mapping[str, str]
    roots: tuple[str, ...] = ()


def means_of(own: Own) -> Renewal:
    """How it is renewed. Raises LoginError where coachman has no way to."""
    if own.login.renewal is None:
        raise LoginError("its program has no command that renews it")
    return own.login.renewal


def directory_of(services: Services, own: Own) -> Path:
    """Where the renewal of a login has what it needs."""
    return services.state.logins / own.key


def is_begun(directory: Path) -> bool:
    """Whether one was begun and not finished. Blocks."""
    return (directory / RECORD).exists()


async def begin(own: Own, content: bytes, means: Means, services: Services) -> None:
    """Start one. It is to be finished, whatever becomes of it. Raises what ``FAULTS`` lists."""
    directory = directory_of(services, own)
    planned = await trio.to_thread.run_sync(_plan, own, means, services, directory)
    await trio.to_thread.run_sync(_place, own, content, means, directory)
    reach("login.intended")
    await beside.start(services, planned, directory / "keeper", boottime_s() + LIMIT_S)
    reach("login.asked")


def _place(own: Own, content: bytes, means: Means, directory: Path) -> None:
    """Make its home with the whole login, once it is on record what that is for."""
    for name in ("home", "scratch", "output"):
        durable.make_directory(directory / name)
    base = userlogin.digest(logins.read(own.login, content).refresh)
    named = {"login": own.login.path, "provider": own.login.provider}
    told = {"path": own.path, "adapter": means.adapter, **named, "base": base}
    durable.replace(directory / RECORD, encode_json({"format": 1, **told}))
    write_seed(directory / "home", own.inside, logins.due(own.login, own.files.logins, content))


def _plan(own: Own, means: Means, services: Services, directory: Path) -> Launch:
    """The sandbox: a sealed one, with the hosts of the login. Blocks."""
    renewal, environment = means_of(own), means.environment
    program = _program(own, means, services)
    variables = {**crossing.crossing(environment, named=False), **renewal.env}
    place = Place(
        workspace=None,
        subfolder="",
        git=None,
        home=str(directory / "home"),
        scratch=str(directory / "scratch"),
        output=str(directory / "output"),
        inputs=None,
        guest=None,
        state_dir=os.path.realpath(services.state.root),
    )
    access = evolve(program.access, env=variables, credentials={})
    sealed = profiles.sealed(place, access, read_host(environment))
    policy = connected(sealed, network.resolve(renewal.hosts))
    command = command_of(renewal.argv, program)
    upstream = upstream_of(environment)
    return Launch(compile_policy(policy), policy, program, command, (), 0.0, (), Site(), upstream)


def _program(own: Own, means: Means, services: Services) -> Program:
    adapter, renewal = services.adapters[means.adapter], means_of(own)
    if adapter.spec.executables == renewal.executables:
        return find_program(means.agent, adapter, services, means.environment, *means.roots)
    forbidden = forbidden_roots(services.state, *means.roots)
    found = executables.resolve(
        renewal.executables, means.environment, native=renewal.native, forbidden=forbidden
    )
    access = executables.agent_access(found, env={}, credentials={}, python=None)
    return Program(found.path, "", access, found.sha256, found.version)


async def finish(own: Own, services: Services) -> Outcome:
    """Wait for its end, and put into the user's file what came of it.

    Nothing is put there that is not the same account's, or where the refresh token is another
    by now.
    """
    directory = directory_of(services, own)
    keeper = directory / "keeper"
    with trio.move_on_after(LIMIT_S + MARGIN_S):
        while keeper_alive(keeper) and read_exit(keeper) is None:  # noqa: ASYNC110 - files
            await trio.sleep(POLL_S)
    await trio.to_thread.run_sync(end_keeper, keeper)
    try:
        returned = await services.workers.read(
            str(directory / "home"), own.inside, logins.MAX_BYTES
        )
        reach("login.returned")
        outcome = await trio.to_thread.run_sync(_put, own, directory, returned)
    except (RepoError, LoginError) as error:
        outcome = Outcome(REFUSED, f"{error} ({_end_of(keeper)})")
    reach("login.replaced")
    await clear(directory, services)
    return outcome


def _end_of(keeper: Path) -> str:
    """How the program ended, in words: what it said may hold the login."""
    exit = read_exit(keeper)
    if exit is None:
        return "its program was never started, or killed"
    if exit.get("ended_by") == "deadline":
        return f"its program was not done after {LIMIT_S:.0f} s"
    if "error" in exit:
        return str(exit["error"])
    if exit.get("exit_code") is None:
        return f"its program was ended by signal {exit.get('signal')}"
    return f"its program ended with status {exit['exit_code']}"


def _put(own: Own, directory: Path, returned: bytes) -> Outcome:
    base = read_json(directory / RECORD)["base"]

    def make(content: bytes) -> bytes:
        try:
            found = logins.read(own.login, content)
        except LoginError:
            raise ChangedError from None
        if userlogin.digest(found.refresh) != base:
            raise ChangedError
        return logins.renewed(own.login, content, returned, time.time())

    try:
        userlogin.replace(own.path, make)
    except ChangedError:
        if _is_there(own, returned):
            # Who was killed had put it there.
            return Outcome(RENEWED)
        return Outcome(KEPT, "it was changed while it was renewed, and stays as it is now")
    return Outcome(RENEWED)


def _is_there(own: Own, returned: bytes) -> bool:
    try:
        found = logins.read(own.login, content_of(own.path) or b"")
        return found.refresh == logins.read(own.login, returned).refresh
    except LoginError:
        return False


async def clear(directory: Path, services: Services) -> None:
    """Leave nothing of a login, the record of it last. Raises RepoError, OSError."""
    for name in ("home", "keeper", "scratch", "output"):
        if await trio.Path(directory / name).exists():
            await services.workers.delete_tree(str(directory / name))
    await trio.to_thread.run_sync(durable.remove, directory / RECORD)
    await trio.Path(directory).rmdir()
    reach("login.cleared")


def record_of(directory: Path) -> dict[str, Any]:
    """What an unfinished one is about. Blocks."""
    return read_json(directory / RECORD)


def content_of(path: str) -> bytes | None:
    """The user's file; None where there is none, or it is none that can be read. Blocks."""
    try:
        return read_file(path)
    except OSError:
        return None
