"""Removing a task's worktree and homes once what they held is kept by a ref, and on record."""

from pathlib import Path

import trio

from ...evidence.rundir import RunDirectory
from ...failpoints import reach
from ..preparing.shown import hide_repository
from ..services import Services
from ..tasks import Task, TaskStore

LOGS = ("stdout.*", "stderr.*", "stdin.log", "checkpoint.json")


async def remove_worktree(services: Services, task: Task) -> Task:
    """Finish what `TaskStore.set_going` put on record; it may have been begun. Raises RepoError.

    The agents' private homes go with it: their sessions were about this tree.
    """
    workers, common = services.workers, task.common_dir
    if task.worktree:
        await workers.delete_tree(task.worktree)
    reach("cleanup.tree_deleted")
    if task.admin and await trio.Path(common).is_dir():
        await _remove_entry(services, task)
        reach("cleanup.entry_deleted")
    for path in private_of(services, task):
        await workers.delete_tree(str(path))
    reach("cleanup.homes_deleted")
    store = TaskStore(services.state)
    gone = await trio.to_thread.run_sync(store.set_gone, task.repo, task.name)
    reach("cleanup.gone")
    return gone


async def _remove_entry(services: Services, task: Task) -> None:
    found = await services.workers.find_entry(task.common_dir, task.worktree)
    if found is not None:
        await services.workers.remove_entry(task.common_dir, found, task.worktree)


def private_of(services: Services, task: Task) -> tuple[Path, ...]:
    """The agents' private homes of a task, and what sealed runs of it were given."""
    state = services.state
    if task.worktree:
        return (state.homes(task.repo, task.name),)
    return (
        state.sealed_homes(task.repo, task.name),
        *(state.sealed_run(run) for run in task.runs),
    )


async def remove_logs(services: Services, run: str) -> int:
    """Delete a run's raw logs and scratch; the bytes that it gave back. Raises RepoError."""
    directory = services.state.run(run)
    trimmed = await services.workers.trim(str(directory / "attempts"), LOGS)
    scratch = directory / "scratch"
    more = await services.workers.measure(str(scratch))
    await services.workers.delete_tree(str(scratch))
    # A run that nobody could conclude has one still.
    await hide_repository(RunDirectory(directory))
    return trimmed.bytes + more.bytes
