"""Where the directories of one run are on the host.

What a sealed run is given lies at neutral paths: a process can read in its own table of mounts
where each of them comes from.
"""

import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from attrs import frozen

from coachman_sandbox import layout

from ... import durable
from ...evidence.rundir import RunDirectory
from ...evidence.state import StateDirectory
from ...rpc.errors import RpcError
from .record import Record


@frozen
class Places:
    """``homes`` are the private homes of the run's task; ``neutral``: they are not in the state."""

    scratch: Path
    output: Path
    inputs: Path
    homes: Path
    neutral: bool = False

    def home(self, agent: str, policy_digest: str) -> Path:
        """An agent's private home, kept for the task and for one compiled policy."""
        return self.homes / f"{agent}-{policy_digest[:16]}"

    @property
    def own(self) -> tuple[Path, ...]:
        """Those that belong to the run alone and that its agent writes."""
        return self.scratch, self.output


def workspace_of(record: Record) -> str:
    """The worktree as the agent sees it."""
    return record.worktree if record.walls.native else layout.WORKSPACE


def places_of(record: Record, state: StateDirectory) -> Places:
    """The places of a run, whether or not they are there."""
    directory, repo = RunDirectory(state.run(record.run)), record.repository.key
    if record.walls.repository:
        homes = state.homes(repo, record.task)
        return Places(directory.scratch, directory.output, directory.inputs, homes)
    own, homes = state.sealed_run(record.run), state.sealed_homes(repo, record.task)
    return Places(own / "scratch", own / "output", own / "inputs", homes, neutral=True)


def make(places: Places, state: StateDirectory) -> None:
    """Make what an agent is to find. Blocks. Raises RpcError, DiskError."""
    if places.neutral:
        check_neutral(state, create=True)
    for path in (places.scratch, places.output, places.inputs, places.homes):
        durable.make_directory(path)


def make_inputs(record: Record, state: StateDirectory) -> Path:
    """Where the inputs of a run that is not on record yet go: there before all else. Blocks."""
    places = places_of(record, state)
    building = RunDirectory(state.run(record.run)).building
    if places.neutral:
        check_neutral(state, create=True)
    path = places.inputs if places.neutral else building.path / places.inputs.name
    durable.make_directory(path)
    return path


def check_neutral(state: StateDirectory, *, create: bool = False) -> None:
    """See that nobody else has a say in what sealed runs are given. Blocks. Raises RpcError.

    It may be missing, unless it is to be ``create``d.
    """
    path = state.sealed
    try:
        if create:
            path.mkdir(durable.DIRECTORY_MODE, exist_ok=True)
        found = os.lstat(path)
    except FileNotFoundError as error:
        if not create:
            return
        raise _unfit(path, str(error.strerror)) from error
    except OSError as error:
        raise _unfit(path, str(error.strerror)) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise _unfit(path, "it is no directory of yours")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise _unfit(path, "others may enter it")


def _unfit(path: Path, why: str) -> RpcError:
    return RpcError(
        "BoundaryUnavailable",
        f"cannot start: {path}, where sealed runs have their directories, cannot be used: {why}",
        hint="remove it, or name another place under `sealed` in [storage] of the configuration",
    )


@lru_cache(maxsize=1)
def guest_files(guest: str) -> Mapping[str, bytes]:
    """Coachman's own guest programs by their content. Blocks."""
    paths = (path for path in Path(guest).iterdir() if path.suffix in (".py", ".js"))
    return {path.name: path.read_bytes() for path in paths}
