"""The worktree of a run: made or found, and the commit that the run starts from."""

import os

import trio

from coachman_sandbox import gitview

from ... import durable
from ..facts.members import Site
from ..facts.places import make, places_of
from ..facts.record import Record
from ..services import Services
from ..tasks import MAKING, Task, TaskStore
from ..tidying.removal import remove_worktree
from .shown import view_beside


async def site_of(record: Record, services: Services, start: str | None) -> Site:
    """The run's worktree, made or found, and the commit that the run starts from."""
    places = places_of(record, services.state)
    await trio.to_thread.run_sync(make, places, services.state)
    if not record.repository.is_there:
        return Site()
    async with services.trees.held(record.worktree):
        admin = await _worktree(record, services)
    subfolder = await trio.to_thread.run_sync(_subfolder, record)
    repo = record.repository
    # What set a worktree up is none of an agent's work, also where a daemon died behind it.
    if start is not None or not (record.continuing or record.setup or record.copy):
        return Site(admin, subfolder, start or repo.base)
    snapshot = await services.workers.snapshot(
        repo.common_dir,
        admin_dir(record, admin),
        record.worktree,
        # What a run leaves that changes nothing is the tree that it found.
        ref=None if record.writes else f"refs/coachman/run/{record.run}",
        parents=(repo.base,),
        message=f"coachman: before run {record.run}",
    )
    return Site(admin, subfolder, snapshot.commit)


async def _worktree(record: Record, services: Services) -> str:
    """Make the task's worktree unless it is there; the name of its entry in the repository."""
    repo, tree, tasks = record.repository, record.worktree, TaskStore(services.state)
    task = await trio.to_thread.run_sync(tasks.get, repo.key, record.task)
    assert task is not None
    if task.going:
        # A killed daemon was removing it; all that it held is in a commit.
        task = await remove_worktree(services, task)
    admin = task.admin
    if not admin or not await trio.Path(tree, ".git").is_file():
        admin = await _new_worktree(record, services, tasks, task)
    await trio.to_thread.run_sync(gitview.check_pointer, tree)
    return admin


async def _new_worktree(record: Record, services: Services, tasks: TaskStore, task: Task) -> str:
    repo, tree = record.repository, record.worktree
    await trio.to_thread.run_sync(durable.make_directory, services.state.worktrees / repo.key)
    if task.admin == MAKING:
        # A killed daemon left it half-made; no agent was ever in it.
        await services.workers.delete_tree(tree)
    elif await trio.to_thread.run_sync(_is_vacant, tree):
        await trio.to_thread.run_sync(tasks.set_admin, repo.key, record.task, MAKING)
    wants = bool(record.setup or record.copy)
    if task.bare != wants:
        await trio.to_thread.run_sync(tasks.set_bare, repo.key, record.task, wants)
    start = task.kept or repo.base
    async with view_beside(record, services, start):
        path = await services.workers.create_worktree(
            repo.common_dir, admin_name(record), tree, start
        )
    # The name may have been taken by something else: what it became is kept.
    admin = os.path.basename(path)
    await trio.to_thread.run_sync(tasks.set_admin, repo.key, record.task, admin)
    return admin


def _is_vacant(tree: str) -> bool:
    try:
        return not os.listdir(tree)
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False


def _subfolder(record: Record) -> str:
    """The caller's own folder of the worktree; its top where the base does not have it."""
    prefix = record.repository.prefix
    return prefix if os.path.isdir(os.path.join(record.worktree, prefix)) else ""


def admin_name(record: Record) -> str:
    """The name that is asked for the task's worktree entry in the repository."""
    return f"coachman-{record.task}"


def admin_dir(record: Record, admin: str) -> str:
    """Where a worktree's entry lies."""
    return os.path.join(record.repository.common_dir, "worktrees", admin)
