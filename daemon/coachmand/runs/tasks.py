"""Tasks: a worktree with a name, a base and the runs that worked in it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from attrs import asdict, evolve, frozen

from .. import durable
from ..evidence.rundir import encode_json, put_json, read_json
from ..evidence.state import StateDirectory
from ..journal.damage import DamagedError
from .facts.clock import epoch_ms
from .facts.record import Record, Repository

MAKING = ""


@frozen
class Task:
    """One task of one repository. ``base`` is recorded once, at creation.

    ``admin`` names its worktree's entry in the repository: None before that was begun,
    `MAKING` until it was done. ``kept`` is the commit that holds what the worktree held:
    while it is ``going``, and once it went. The next run of the task begins from it.
    ``bare`` is its worktree until it has been set up, where its repository wants that.
    """

    name: str
    repo: str
    common_dir: str
    toplevel: str
    worktree: str
    base: str
    created_at: int
    admin: str | None = None
    runs: tuple[str, ...] = ()
    kept: str | None = None
    going: bool = False
    bare: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether its worktree was removed and not made again."""
        return self.kept is not None and self.admin is None

    def as_json(self) -> dict[str, Any]:
        """The task as it is written and shown."""
        return asdict(self)


class TaskStore:
    """The records of tasks, one file each. All calls block."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state

    def _path(self, repo: str, name: str) -> Path:
        return self._state.tasks(repo) / f"{name}.json"

    def get_or_new(self, repo: Repository, name: str) -> Task:
        """The task of that name, or one that does not exist on disk yet."""
        found = self.get(repo.key, name)
        if found is not None:
            return found
        worktree = str(self._state.worktree(repo.key, name)) if repo.is_there else ""
        return Task(name, repo.key, repo.common_dir, repo.toplevel, worktree, repo.base, epoch_ms())

    def get(self, repo: str, name: str) -> Task | None:
        """A task by name."""
        try:
            return _task(read_json(self._path(repo, name)))
        except FileNotFoundError:
            return None
        except TypeError as error:
            raise DamagedError(self._path(repo, name), f"it is no task's record: {error}") from None

    def add_run(self, task: Task, run: str) -> Task:
        """Record that ``run`` works in the task: before the worktree exists."""
        now = evolve(self.get(task.repo, task.name) or task)
        now = evolve(now, runs=(*now.runs, run))
        durable.make_directory(self._state.tasks(task.repo))
        put_json(self._path(task.repo, task.name), now.as_json())
        return now

    def set_admin(self, repo: str, name: str, admin: str) -> None:
        """Record the name that the worktree's entry got; `MAKING`: it is about to be made."""
        task = self._known(repo, name)
        kept = task.kept if admin == MAKING else None
        put_json(self._path(repo, name), evolve(task, admin=admin, kept=kept).as_json())

    def set_bare(self, repo: str, name: str, bare: bool) -> None:
        """Record whether the worktree is still to be set up."""
        put_json(self._path(repo, name), evolve(self._known(repo, name), bare=bare).as_json())

    def set_going(self, repo: str, name: str, kept: str) -> Task:
        """Record, for good, that the worktree goes: ``kept`` holds what is in it."""
        task = evolve(self._known(repo, name), kept=kept, going=True)
        durable.replace(self._path(repo, name), encode_json(task.as_json()))
        return task

    def set_gone(self, repo: str, name: str) -> Task:
        """Record that nothing is left of the worktree."""
        task = evolve(self._known(repo, name), admin=None, going=False)
        durable.replace(self._path(repo, name), encode_json(task.as_json()))
        return task

    def _known(self, repo: str, name: str) -> Task:
        task = self.get(repo, name)
        assert task is not None
        return task

    def add_run_once(self, record: Record) -> None:
        """Make good what a crash between a run's record and its task's left undone."""
        repo = record.repository
        task = self.get_or_new(repo, record.task)
        if record.run not in task.runs:
            self.add_run(task, record.run)

    def all(self, repo: str | None = None) -> Iterator[Task]:
        """Every task, or those of one repository."""
        root = self._state.root / "tasks"
        folders = [root / repo] if repo else sorted(root.iterdir())
        for folder in folders:
            for path in sorted(folder.glob("*.json")):
                try:
                    yield _task(read_json(path))
                except (OSError, ValueError, TypeError, msgspec.DecodeError):
                    continue


def _task(record: dict[str, Any]) -> Task:
    known = {key: record[key] for key in Task.__annotations__ if key in record}
    known["runs"] = tuple(known.get("runs", ()))
    return Task(**known)
