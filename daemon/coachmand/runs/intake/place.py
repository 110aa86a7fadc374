"""Where a new run works: which repository, from which commit on, in which task."""

import os
from typing import Any

import trio

from coachman_sandbox.policy import contains
from coachman_sandbox.profiles import PROFILES, Profile

from ...evidence import ids
from ...evidence.rundir import RunDirectory
from ...evidence.state import StateDirectory, repo_key
from ...repos.errors import NOT_A_REPOSITORY, RepoError
from ...repos.records import Repository as FoundRepository
from ...rpc.errors import RpcError
from ..ending import sentinel
from ..facts.record import NO_REPOSITORY, Record, Repository
from ..services import Services
from ..tasks import Task
from .request import StartRequest, usage

# What stands for the repository of a run that has none.
NOWHERE = FoundRepository("", "", "", None, None, 0, None)


async def repository_of(
    request: StartRequest, walls: Profile, services: Services
) -> FoundRepository:
    if not walls.repository:
        return NOWHERE
    try:
        found = await services.workers.inspect(request.dir)
    except RepoError as error:
        if error.name != NOT_A_REPOSITORY:
            raise RpcError("InvalidParams", error.message, error.hint) from error
        raise usage(
            f"{request.dir} is in no git repository",
            "make one (git init and a first commit), name one with -C DIR, or do without: "
            "--profile sealed",
            reason=NOT_A_REPOSITORY,
        ) from error
    if found.refused is not None:
        raise usage(
            f"{found.toplevel} cannot be worked on by this version: {found.refused}",
            "use a clone without it",
            reason="unsupported_repository",
        )
    await trio.to_thread.run_sync(_check_place, found, services.state)
    return found


def _check_place(found: FoundRepository, state: StateDirectory) -> None:
    """Where agents write, only a worktree that we made is a repository's. Blocks.

    A nested one is whatever an agent made of it: its pointer could lead to any repository of the
    user's, which the next agent would be shown.
    """
    worktrees = os.path.realpath(state.worktrees)
    ours = (os.path.realpath(state.root), worktrees)
    if not any(contains(root, found.toplevel) for root in ours):
        return
    if os.path.dirname(os.path.dirname(found.toplevel)) != worktrees:
        raise usage(
            f"{found.toplevel} is a repository that an agent may have made, and lead anywhere",
            "name the task's worktree itself, or clone this one to a place of your own",
            reason="agents_repository",
        )


async def base_of(request: StartRequest, found: FoundRepository, services: Services) -> str:
    if found is NOWHERE:
        if request.base is not None:
            raise usage("a run of this profile has no repository", "leave --base out")
        return NO_REPOSITORY.base
    if request.base is None:
        if found.head is None:
            raise usage(
                f"{found.toplevel} has no commit yet",
                "commit something first: git commit --allow-empty",
            )
        return found.head
    try:
        return await services.workers.resolve(found.common_dir, request.base)
    except RepoError as error:
        raise usage(f"no commit is named {request.base!r}: {error.message}", error.hint) from error


def recorded(found: FoundRepository, base: str) -> Repository:
    """The repository as a run's record names it."""
    if found is NOWHERE:
        return NO_REPOSITORY
    return Repository(
        repo_key(found.common_dir),
        found.common_dir,
        found.toplevel,
        found.prefix,
        base,
        found.uncommitted,
    )


def check_trust(request: StartRequest, walls: Profile, task: Task, services: Services) -> None:
    """What a confined agent wrote runs on the host only where somebody says so. Blocks."""
    if request.trust_tree and not walls.native:
        raise usage("only a run on the host trusts a tree", "leave --trust-tree out")
    if request.native and not walls.native:
        raise usage("only a run on the host is native", "leave --native out, or give -p host")
    if request.trust_tree or not walls.native:
        return
    for run in task.runs:
        wrote = _walls_of(run, services)
        if wrote is None or (wrote.writes and not wrote.native):
            raise RpcError(
                "Denied",
                f"cannot start: run {run[-5:]}, which was confined, wrote in task {task.name}: its"
                " files would be in effect on the host",
                hint="look at them (coachman diff), then give --trust-tree, or use another task",
                detail={"run": run, "task": task.name},
                next=[["coachman", "diff", run[-5:]]],
            )


def _walls_of(run: str, services: Services) -> Profile | None:
    """The profile of an earlier run; None for one that this version does not know."""
    record = Record.of_json(RunDirectory(services.state.run(run)).read_request())
    return record.walls if record.custom or record.profile in PROFILES else None


def task_name(request: StartRequest, run: str) -> str:
    if request.task is None:
        return ids.task_from_prompt(request.prompt or " ".join(request.argv), run)
    fault = ids.task_name_fault(request.task)
    if fault is not None:
        raise usage(f"{request.task!r} cannot name a task: {fault}")
    return request.task


def check_of(request: StartRequest, found: FoundRepository, services: Services) -> str | None:
    """The run's own, else the repository's."""
    configured = None if found is NOWHERE else services.config.of_repository(found.toplevel)
    given = request.check if request.check is not None else configured and configured.check
    return given if given and given.strip() else None


def setup_of(found: FoundRepository, services: Services) -> dict[str, Any]:
    """What a new worktree of the repository is given before an agent works in it."""
    configured = None if found is NOWHERE else services.config.of_repository(found.toplevel)
    return {"setup": configured.setup, "copy": configured.copy} if configured else {}


async def sentinel_of(request: StartRequest, services: Services) -> str | None:
    """Where the run's end is told in a file: outside of what agents write."""
    path = request.sentinel_file
    if path is None:
        return None
    trees = (str(services.state.root), str(services.state.worktrees))
    try:
        return await trio.to_thread.run_sync(sentinel.check, path, trees)
    except sentinel.SentinelError as error:
        text = f"the sentinel file {path} {error}"
        raise usage(text, "name a new file in a directory of yours alone") from error


def warnings_of(request: StartRequest, found: FoundRepository, task: Task) -> tuple[str, ...]:
    warnings = list(found.warnings)
    if found.uncommitted and not task.runs:
        changes = "change is" if found.uncommitted == 1 else "changes are"
        warnings.append(f"{found.uncommitted} uncommitted {changes} not in the base")
    if request.base is not None and task.runs:
        warnings.append(f"task {task.name} exists: its base stays {task.base[:12]}")
    return tuple(warnings)
