"""What lies in the state directory and belongs to no record: named, never removed."""

import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from attrs import frozen

from ... import keeper
from ...evidence.ids import is_run_id
from ...evidence.state import StateDirectory
from ..tasks import TaskStore

MAX_FINDINGS = 100
BEING_MADE_S = 60.0


@frozen
class Finding:
    """``kind`` is what was found, ``remedy`` what a person may do about it.

    Of the state directory: keeper, process, worktree, home or run. Of programs that the daemon is
    to run, or files that it is to watch: on_event, notify or handler; of the configuration: rule.
    """

    kind: str
    path: str
    why: str
    remedy: str


def find(state: StateDirectory, tasks: TaskStore, living: Collection[str]) -> list[Finding]:
    """At most `MAX_FINDINGS` of them; ``living`` are the runs that somebody carries. Blocks."""
    found = [*_keepers(state, living), *_folders(state, tasks), *_runs(state, living)]
    return found[:MAX_FINDINGS]


def _keepers(state: StateDirectory, living: Collection[str]) -> Iterator[Finding]:
    """Keepers whose run nobody carries: their agents go on unwatched."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        run = _kept_run(process, state)
        if run is not None and run not in living:
            yield Finding(
                "keeper",
                str(state.run(run)),
                f"the keeper with pid {process.name} holds an agent of run {run},"
                " which this daemon does not carry",
                f"coachman daemon restart takes it up, if its record can be read; or: kill"
                f" {process.name}",
            )


def _kept_run(process: Path, state: StateDirectory) -> str | None:
    """The run of a keeper of this state directory: it holds a lock below the run's."""
    try:
        if os.fsencode(keeper.PROGRAM) not in (process / "cmdline").read_bytes().split(b"\0"):
            return None
        for descriptor in (process / "fd").iterdir():
            path = Path(os.readlink(descriptor))
            if path.is_relative_to(state.runs):
                return path.relative_to(state.runs).parts[0]
    except OSError:
        # It is gone by now, or another user's.
        return None
    return None


def _folders(state: StateDirectory, tasks: TaskStore) -> Iterator[Finding]:
    known = {(task.repo, task.name) for task in tasks.all()}
    for kind, root in (("worktree", state.worktrees), ("home", state.root / "agents")):
        for repo in _below(root):
            for folder in _below(repo):
                if (repo.name, folder.name) not in known:
                    yield Finding(
                        kind,
                        str(folder),
                        "no task is on record for it",
                        f"look into it, save what is worth it, then: rm -rf {folder}",
                    )


def _runs(state: StateDirectory, living: Collection[str]) -> Iterator[Finding]:
    for folder in _below(state.runs):
        if folder.name in living or (state.live / folder.name).exists():
            continue
        if not is_run_id(folder.name):
            if time.time() - folder.stat().st_mtime < BEING_MADE_S:
                continue
            why = "its record was never finished: nothing was started for it"
        elif (folder / "result.json").exists():
            continue
        else:
            why = "it has neither a result nor a mark that it lives"
        yield Finding("run", str(folder), why, f"look into it, then: rm -rf {folder}")


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())
    except FileNotFoundError:
        return []
