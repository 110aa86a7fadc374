"""From the names that a cleanup was given to runs and whole tasks."""

from collections.abc import Sequence

import trio

from ...rpc.errors import RpcError
from ..following.references import repo_of, resolve
from ..supervisor import Supervisor

TaskKey = tuple[str, str]


async def chosen(
    supervisor: Supervisor, runs: Sequence[str], tasks: Sequence[str], directory: str | None
) -> tuple[frozenset[str], frozenset[TaskKey]]:
    """The runs and tasks that are meant; a task's name among ``runs`` is the task.

    Raises RpcError NotFound or InvalidParams.
    """
    if not runs and not tasks:
        return frozenset(), frozenset()
    known = await _known(supervisor)
    here = await repo_of(supervisor, directory)
    whole = {_one(name, known.get(name, []), here) for name in tasks}
    single = set()
    for name in runs:
        if name in known:
            whole.add(_one(name, known[name], here))
        else:
            single.add(await resolve(supervisor, name, directory))
    return frozenset(single), frozenset(whole)


async def _known(supervisor: Supervisor) -> dict[str, list[TaskKey]]:
    found: dict[str, list[TaskKey]] = {}
    for task in await trio.to_thread.run_sync(lambda: list(supervisor.tasks.all())):
        found.setdefault(task.name, []).append((task.repo, task.name))
    return found


def _one(name: str, found: Sequence[TaskKey], here: str | None) -> TaskKey:
    if not found:
        raise RpcError("NotFound", f"cannot find task {name!r}", hint="coachman list -a shows all")
    if len(found) == 1:
        return found[0]
    for key in found:
        if key[0] == here:
            return key
    places = ", ".join(repo for repo, _ in found)
    raise RpcError(
        "InvalidParams",
        f"cannot tell which task {name!r} is: {places} each have one",
        hint="clean up from within its repository, or name it with -C",
    )
