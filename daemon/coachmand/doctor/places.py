"""The directories that runs are kept in: whose they are, what they lie on, and how much room."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from coachman.diagnosis import failed, ok, warning
from coachman.results import Diagnosis
from coachman.wire import EXIT_BOUNDARY, EXIT_STORAGE
from coachman_sandbox.host import read_small
from coachman_sandbox.machine import kind_of_mount

from ..rpc.errors import RpcError
from ..runs.facts.places import check_neutral
from ..runs.services import Means
from ..runs.tidying.space import shown
from .filesystems import FileSystem, kind_of, magic_of

AREA = "storage"
# A run's worktree and evidence take thousands.
FEW_INODES = 50_000
ELSEWHERE = "COACHMAN_STATE_DIR (or [storage] worktrees) names a place on a disk of this machine"


def examined(means: Means) -> Iterator[Diagnosis]:
    """The state directory and that of worktrees, existing or to come. Blocks."""
    state = means.state
    named = {"state": state.root, "worktrees": state.worktrees}
    for name, path in named.items():
        yield from _place(name, path, means)
    yield from _neutral(means)


def _place(name: str, path: Path, means: Means) -> Iterator[Diagnosis]:
    there = _nearest(path)
    refused = _unusable(name, path, there)
    if refused is not None:
        yield refused
        return
    if there == str(path):
        yield from _mode(name, path)
    kind = kind_of(magic_of(there), kind_of_mount(_mounts(), os.path.realpath(there)))
    yield _kind(name, path, kind)
    yield _room(name, path, there, means)


def _nearest(path: Path) -> str:
    """The directory itself, or the one that it would be made in."""
    while not os.path.lexists(path) and path != path.parent:
        path = path.parent
    return str(path)


def _unusable(name: str, path: Path, there: str) -> Diagnosis | None:
    """Why nothing can be kept there."""
    found = os.stat(there)
    if not stat.S_ISDIR(found.st_mode):
        return _failed(name, f"{there} is no directory", "move it away")
    if os.statvfs(there).f_flag & os.ST_RDONLY:
        return _failed(name, f"{there} lies on a read-only file system", ELSEWHERE)
    if not os.access(there, os.W_OK | os.X_OK):
        return _failed(name, f"{there} cannot be written to", f"give it to you, or {ELSEWHERE}")
    if there == str(path) and found.st_uid != os.geteuid():
        text = f"{path} belongs to uid {found.st_uid}, and this is uid {os.geteuid()}"
        return _failed(name, text, "run coachman as its owner, or name another one")
    return None


def _mode(name: str, path: Path) -> Iterator[Diagnosis]:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & 0o077:
        text = f"others may enter {path} (mode {mode:o})"
        yield warning(AREA, f"{name}.mode", text, f"chmod 700 {path}")


def _failed(name: str, cause: str, remedy: str) -> Diagnosis:
    return failed(AREA, f"{name}.usable", cause, remedy, exit=EXIT_STORAGE)


def _kind(name: str, path: Path, kind: FileSystem) -> Diagnosis:
    at = f"{name}.filesystem"
    about = {"path": str(path), "kind": kind.name}
    if kind.holds == "network":
        text = (
            f"{path} lies on {kind.name}, which another machine serves: locks and memory maps there"
            " are not to be relied on, and runs may be lost"
        )
        return warning(AREA, at, text, ELSEWHERE, about)
    if kind.holds == "windows":
        text = f"{path} lies on {kind.name}, which keeps no modes of files and is slow"
        return warning(AREA, at, text, ELSEWHERE, about)
    if kind.holds == "memory":
        text = f"{path} lies in memory ({kind.name}): what runs leave is gone after a restart"
        return warning(AREA, at, text, ELSEWHERE, about)
    return ok(AREA, at, f"{name} at {path} ({kind.name})", about)


def _room(name: str, path: Path, there: str, means: Means) -> Diagnosis:
    found, free = os.statvfs(there), shutil.disk_usage(there).free
    floor = max(means.config.retention.free_space_floor, 2 * means.config.storage.reserve)
    about = {"path": str(path), "free_bytes": free, "floor_bytes": floor}
    if free < floor:
        return failed(
            AREA,
            f"{name}.room",
            f"{shown(free)} are free at {there}, and runs start from {shown(floor)} on",
            "remove what ended runs left, or lower retention.free_space_floor",
            about,
            next=[("coachman", "cleanup")],
            exit=EXIT_STORAGE,
        )
    # Some file systems count none.
    if found.f_files and found.f_favail < FEW_INODES:
        text = f"only {found.f_favail} files more fit at {there} (inodes)"
        steps = [("coachman", "cleanup")]
        return warning(AREA, f"{name}.room", text, "remove what ended runs left", about, next=steps)
    text = f"{shown(free)} free for {name}, of which {shown(floor)} have to be"
    return ok(AREA, f"{name}.room", text, about)


def _neutral(means: Means) -> Iterator[Diagnosis]:
    try:
        check_neutral(means.state)
    except RpcError as error:
        yield failed(AREA, "sealed", error.message, str(error.data["hint"]), exit=EXIT_BOUNDARY)


def _mounts() -> str:
    return read_small("/proc/self/mountinfo").decode(errors="replace")
