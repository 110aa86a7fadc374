"""What a run would see of a repository, made as the daemon makes it."""

import shutil
from pathlib import Path

import trio

from coachman_sandbox.gitview import shown_config
from coachmand.repos.pool import GitWorkers

GIT = shutil.which("git") or "git"


def show(state: Path, common: Path, admin: str, run: str = "run") -> Path:
    """The git directory of ``run`` below ``state``, over views that are kept in ``state``/views."""
    return trio.run(_show, state, common, admin, run)


async def _show(state: Path, common: Path, admin: str, run: str) -> Path:
    async with GitWorkers() as workers:
        return await show_with(workers, state, common, admin, run)


async def show_with(workers: GitWorkers, state: Path, common: Path, admin: str, run: str) -> Path:
    """The same by workers that are there."""
    target, views = state / run, state / "views"
    target.mkdir()
    views.mkdir(exist_ok=True)
    head = (common / "worktrees" / admin / "HEAD").read_text().strip()
    await workers.show(
        str(common),
        str(common / "worktrees" / admin),
        base=head,
        views=str(views),
        target=str(target),
        config=shown_config(str(common)),
        git=GIT,
    )
    return target
