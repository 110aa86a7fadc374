"""Removing a task's worktree and homes once what they held is kept by a ref, and on record."""

import trio

from ..failpoints import reach
from .services import Services
from .tasks import Task, TaskStore

LOGS = ("stdout.*", "stderr.*", "stdin.log", "checkpoint.json")


async def remove_worktree(services: Services, task: Task) -> Task:
    """Finish what `TaskStore.set_going` put on record; it may have been begun. Raises RepoError.

    The agents' private homes go with it: their sessions were about this tree.
    """
    workers, common = services.workers, task.common_dir
    await workers.delete_tree(task.worktree)
    reach("cleanup.tree_deleted")
    if task.admin and await trio.Path(common).is_dir():
        await _remove_entry(services, task)
        reach("cleanup.entry_deleted")
    await workers.delete_tree(str(services.state.homes(task.repo, task.name)))
    reach("cleanup.homes_deleted")
    store = TaskStore(services.state)
    gone = await trio.to_thread.run_sync(store.set_gone, task.repo, task.name)
    reach("cleanup.gone")
    return gone


async def _remove_entry(services: Services, task: Task) -> None:
    found = await services.workers.find_entry(task.common_dir, task.worktree)
    if found is not None:
        await services.workers.remove_entry(task.common_dir, found, task.worktree)


async def remove_logs(services: Services, run: str) -> int:
    """Delete a run's raw logs and scratch; the bytes that it gave back. Raises RepoError."""
    directory = services.state.run(run)
    trimmed = await services.workers.trim(str(directory / "attempts"), LOGS)
    scratch = directory / "scratch"
    more = await services.workers.measure(str(scratch))
    await services.workers.delete_tree(str(scratch))
    return trimmed.bytes + more.bytes
