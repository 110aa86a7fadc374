"""``task.*``: worktrees with a name, a base and the runs that worked in them."""

import trio
from attrs import frozen

from coachman import results

from ..evidence.state import repo_key
from ..repos.errors import RepoError
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from ..runs.tasks import Task
from .context import Context


@frozen
class ListParams:
    """``dir`` limits the list to the repository around it."""

    dir: str | None = None


@frozen
class GetParams:
    """A task by name, of the repository around ``dir`` where several have one."""

    task: str
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "task.list",
        params=ListParams,
        result=results.TaskPage,
        summary="Tasks and who works in them.",
    )
    async def list_(context: Context, params: ListParams) -> results.TaskPage:
        return {"tasks": [_shown(context, task) for task in await _tasks(context, params.dir)]}

    @registry.method(
        "task.get",
        params=GetParams,
        result=results.Task,
        summary="One task and its runs.",
        errors=("NotFound",),
    )
    async def get(context: Context, params: GetParams) -> results.Task:
        found = [t for t in await _tasks(context, params.dir) if t.name == params.task]
        if not found:
            raise RpcError(
                "NotFound",
                f"cannot find task {params.task!r}",
                hint="tasks are of a repository: name its directory",
            )
        if len(found) > 1:
            places = ", ".join(task.toplevel for task in found)
            text = f"cannot tell which task {params.task!r} is: {places} each have one"
            raise RpcError("InvalidParams", text, hint="name the repository's directory")
        return _shown(context, found[0])


async def _tasks(context: Context, directory: str | None) -> list[Task]:
    store, repo = context.supervisor.tasks, None
    if directory is not None:
        try:
            repo = repo_key((await context.services.workers.locate(directory)).common_dir)
        except RepoError as error:
            raise RpcError("InvalidParams", error.message, error.hint) from error
    return await trio.to_thread.run_sync(lambda: list(store.all(repo)))


def _shown(context: Context, task: Task) -> results.Task:
    holder = context.supervisor.holder(task.repo, task.name)
    return {
        "task": task.name,
        "repo": task.repo,
        "common_dir": task.common_dir,
        "toplevel": task.toplevel,
        "worktree": task.worktree,
        "base": task.base,
        "created_at": task.created_at,
        "admin": task.admin,
        "runs": list(task.runs),
        "holder": holder,
    }
