"""A real sandbox by a real keeper, as a run's, around a program of coachman's own."""

import base64
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import trio
from attrs import evolve, frozen

from coachman_sandbox import layout
from coachman_sandbox.bubblewrap import compile_policy
from coachman_sandbox.environment import crossing
from coachman_sandbox.executables import python_runtime
from coachman_sandbox.host import read_host
from coachman_sandbox.network import Network
from coachman_sandbox.policy import AgentAccess, Place, Policy
from coachman_sandbox.profiles import PROFILES, Profile, caps

from .. import durable
from ..runs.facts.clock import boottime_s
from ..runs.keepers.starting import KeeperError, Starting, end_keeper, read_exit, read_state
from ..runs.preparing.gating import connected, orders, upstream_of
from ..runs.services import Means
from .walls import configured_walls

# What the program itself takes at most, and what may pass until it began and was seen to end.
PROGRAM_LIMIT_S = 20.0
LIMIT_S = 40.0
POLL_S = 0.02


@frozen
class Rehearsed:
    """What became of it. ``caps`` are those that the kernel holds, as the keeper found it."""

    lines: tuple[Mapping[str, Any], ...] = ()
    caps: Mapping[str, bool] = {}
    why: str | None = None


async def rehearse(
    means: Means,
    environment: Mapping[str, str],
    network: Network,
    access: AgentAccess,
    destinations: Sequence[str] = (),
) -> Rehearsed:
    """Start it with this network, and have it say which ``destinations`` it reaches from inside.

    ``environment`` is what a run would have of its caller's: proxies and certificates count.
    """
    walls = configured_walls(means)
    # What confines nobody needs no rehearsal of its walls; its network is tried all the same.
    profile = PROFILES["edit"] if walls.native else walls
    with tempfile.TemporaryDirectory(prefix="coachman-doctor-", ignore_cleanup_errors=True) as made:
        try:
            record = await trio.to_thread.run_sync(
                _record, Path(made), means, environment, profile, network, access, destinations
            )
            return await _kept(Path(made, "attempt"), record, means)
        except (OSError, ValueError, KeeperError) as error:
            return Rehearsed(why=str(error))


def _record(
    root: Path,
    means: Means,
    environment: Mapping[str, str],
    profile: Profile,
    network: Network,
    access: AgentAccess,
    destinations: Sequence[str],
) -> dict[str, Any]:
    """A keeper's launch record, and the directories that it is about. Blocks."""
    policy = _policy(root, means, environment, profile, network, access)
    compiled = compile_policy(policy)
    durable.make_directory(root / "attempt")
    assert means.boundary.bwrap is not None
    assert policy.caps is not None
    python = python_runtime().path
    program = f"{layout.GUEST}/reach.py"
    told = (json.dumps(list(destinations)), str(PROGRAM_LIMIT_S), layout.CA_BUNDLE)
    return {
        "version": 1,
        "directory": str(root / "attempt"),
        "bwrap": means.boundary.bwrap.path,
        "args": list(compiled.args),
        "data": [base64.b64encode(item).decode() for item in compiled.data],
        "command": [python, "-I", "-S", program, *told],
        "stdin": "null",
        "wall_deadline_boottime_s": boottime_s() + LIMIT_S - 5,
        "boot_id": means.boot,
        "mask": [],
        "gate": orders(network, upstream_of(environment) if network.kind == "gate" else None),
        "memory_limit_bytes": policy.caps.memory_bytes,
        "tasks_limit": policy.caps.tasks,
        "oom_score_adj": policy.caps.oom_score,
    }


def _policy(
    root: Path,
    means: Means,
    environment: Mapping[str, str],
    profile: Profile,
    network: Network,
    access: AgentAccess,
) -> Policy:
    for name in ("workspace", "home", "scratch", "output"):
        durable.make_directory(root / name)
    place = Place(
        workspace=str(root / "workspace"),
        subfolder="",
        git=None,
        home=str(root / "home"),
        scratch=str(root / "scratch"),
        output=str(root / "output"),
        inputs=None,
        guest=means.guest,
        state_dir=str(means.state.root),
    )
    python = python_runtime()
    binds = (*access.binds, *python.binds)
    env = crossing(environment)
    agent = evolve(access, binds=binds, env=env, credentials={}, python=python.path)
    policy = profile.build(place, agent, read_host(environment))
    return connected(policy, network)


async def _kept(directory: Path, record: Mapping[str, Any], means: Means) -> Rehearsed:
    async with trio.open_nursery() as nursery:
        starting = await Starting.begin(directory / "keeper.lock", means.python)
        name = f"doctor-{starting.pid}"
        means.scopes.enclose(starting, name, caps(means.boundary.host), nursery.start_soon)
        try:
            await starting.launch(record)
            with trio.move_on_after(LIMIT_S):
                # Its end is a file, which nothing tells of.
                while read_exit(directory) is None:  # noqa: ASYNC110 - see above
                    await trio.sleep(POLL_S)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(end_keeper, directory)
    return await trio.to_thread.run_sync(_told, directory)


def _told(directory: Path) -> Rehearsed:
    """What the program said and how it ended, off the attempt's files. Blocks."""
    ended, state = read_exit(directory), read_state(directory) or {}
    lines = []
    for path in sorted(directory.glob("stdout.*")):
        for line in path.read_bytes().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
    why = None
    if ended is None:
        why = f"it was not over after {LIMIT_S:.0f} s"
    elif ended["exit_code"] != 0:
        said = b"".join(path.read_bytes() for path in sorted(directory.glob("stderr.*")))
        why = ended.get("error") or said.decode(errors="replace").strip()[-300:]
        why = why or f"it ended with status {ended['exit_code']}, signal {ended['signal']}"
    return Rehearsed(tuple(lines), state.get("caps") or {}, why)
