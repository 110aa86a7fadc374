"""What a run sees of its repository: made before its agent starts, gone once the run has ended."""

import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator

import trio

from coachman_sandbox import executables, gitview

from ... import durable
from ...config_profiles import writable
from ...evidence.rundir import RunDirectory
from ...repos.errors import RepoError
from ..facts.record import Record
from ..services import Means, Services

# A view is made again in a second or less for most repositories, and takes as much as a clone.
VIEWS_UNUSED_S = 14 * 86_400.0
SYSTEM_PATH = "/usr/bin:/bin"


def is_shown(record: Record) -> bool:
    """Whether the run sees a git view: not without a repository, nor on the host itself."""
    return record.repository.is_there and not record.walls.native


def find_git(means: Means, *written: str) -> str:
    """git's own program, outside of what agents write. Blocks. Raises ExecutableError."""
    shared = writable(means.config)
    roots = (str(means.state.root), str(means.state.worktrees), *shared, *written)
    forbidden = tuple(map(os.path.realpath, roots))
    # What a user puts before the system's is often a script that needs more than it may have.
    search = {"PATH": f"{SYSTEM_PATH}:{means.environment.get('PATH', '')}"}
    return executables.resolve(("git",), search, forbidden=forbidden).path


async def show_repository(
    record: Record, directory: RunDirectory, services: Services, admin: str
) -> None:
    """Fill the run's ``git`` directory. Raises RepoError, ExecutableError."""
    repo, views = record.repository, services.state.views(record.repository.key)

    def prepare() -> tuple[str, str]:
        # An attempt before this one, or a daemon that was killed, may have left one.
        shutil.rmtree(directory.git, ignore_errors=True)
        durable.make_directory(directory.git)
        durable.make_directory(views)
        return find_git(services, repo.toplevel), gitview.shown_config(repo.common_dir)

    git, config = await trio.to_thread.run_sync(prepare)
    await services.workers.show(
        repo.common_dir,
        os.path.join(repo.common_dir, "worktrees", admin),
        base=repo.base,
        views=str(views),
        target=str(directory.git),
        config=config,
        git=git,
    )


@contextlib.asynccontextmanager
async def view_beside(record: Record, services: Services, commit: str) -> AsyncIterator[None]:
    """Make the view of a commit beside what is done meanwhile; `show_repository` tells failures."""
    views = services.state.views(record.repository.key)
    failed: RepoError | None = None

    async def make() -> None:
        if not is_shown(record) or await trio.Path(views, commit).is_dir():
            return
        with contextlib.suppress(RepoError, executables.ExecutableError, OSError):
            await trio.to_thread.run_sync(durable.make_directory, views)
            git = await trio.to_thread.run_sync(find_git, services, record.repository.toplevel)
            await services.workers.make_view(record.repository.common_dir, str(views), commit, git)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make)
        try:
            yield
        except RepoError as error:
            # As it is, not in a group.
            failed = error
            nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def forget_views(services: Services) -> None:
    """Remove the views that nobody used for long; where there is no room, all of them."""
    unused_s = VIEWS_UNUSED_S if services.storage.ok else 0.0

    def old() -> list[str]:
        before_s = time.time() - unused_s
        found = set()
        for path in services.state.root.glob("views/*/*/view.json"):
            # A run that needs room may have removed it just now.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < before_s:
                    found.add(str(path.parents[1]))
        return sorted(found)

    for directory in await trio.to_thread.run_sync(old):
        await services.workers.tidy_views(directory, unused_s)


async def hide_repository(directory: RunDirectory) -> None:
    """Remove what the run saw; the packs of kept views stay."""
    await trio.to_thread.run_sync(lambda: shutil.rmtree(directory.git, ignore_errors=True))
