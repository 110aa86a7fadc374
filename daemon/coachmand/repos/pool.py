"""The daemon's side of the git workers."""

import os
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import trio

from coachmand.repos.beneath import text
from coachmand.repos.discovery import Found, discover
from coachmand.repos.errors import FAILED, RepoError
from coachmand.repos.process import WorkerProcess
from coachmand.repos.records import (
    Archived,
    Artifact,
    FileChange,
    Repository,
    Salvage,
    Shown,
    Snapshot,
    Trimmed,
    as_tuples,
)

IDLE_S = 60.0
_CLEANUP_S = 120.0
_SHOW_ATTEMPTS = 3
# The worker for directories that belong to no repository.
_NO_REPOSITORY = ""


class GitWorkers:
    """One worker process per common git directory, started on demand, ended when idle.

    An async context manager; leaving it ends the workers and fails what they
    were doing. Every method raises RepoError, and being cancelled kills the
    operation. Paths are absolute. Directories must not be below a path that
    an agent can write.
    """

    def __init__(
        self,
        *,
        python: str = sys.executable,
        idle_s: float = IDLE_S,
        limit_s: float | None = None,
    ) -> None:
        """``limit_s`` bounds every operation; without it each has its own limit."""
        self._python = python
        self._limit_s = limit_s
        self._idle_s = idle_s
        self._workers: dict[str, WorkerProcess] = {}
        self._views: dict[tuple[str, str], trio.Lock] = {}
        self._manager = trio.open_nursery()
        self._nursery: trio.Nursery | None = None

    def __repr__(self) -> str:
        return f"<GitWorkers {len(self._workers)} running>"

    async def __aenter__(self) -> Self:
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._nursery
        self._nursery.cancel_scope.cancel()
        # What the body raised goes on as it is, not in an exception group.
        await self._manager.__aexit__(None, None, None)

    async def locate(self, path: str) -> Found:
        """Where the repository around the directory ``path`` lies; a fraction of `inspect`."""
        # A few small files; a worker of its own for that would cost more than all the rest.
        return await trio.to_thread.run_sync(discover, path, abandon_on_cancel=True)

    async def inspect(self, path: str) -> Repository:
        """The repository around the directory ``path``."""
        found = await self.locate(path)
        result = await self._call(
            found.common_dir,
            "inspect",
            common=found.common_dir,
            git_dir=found.git_dir,
            toplevel=found.toplevel,
            prefix=found.prefix,
        )
        return Repository(**as_tuples(result))

    async def resolve(self, common: str, revision: str) -> str:
        """The id of the commit that ``revision`` names; HEAD is the main checkout's."""
        commit: str = await self._call(common, "resolve", common=common, revision=revision)
        return commit

    async def is_reachable(
        self, common: str, commit: str, tips: Sequence[str], refs: Sequence[str]
    ) -> bool:
        """Whether a commit of ``tips`` or a ref of ``refs``, where it exists, leads to it."""
        params = {"commit": commit, "tips": list(tips), "refs": list(refs)}
        found: bool = await self._call(common, "is_reachable", common=common, **params)
        return found

    async def create_worktree(self, common: str, name: str, tree_path: str, commit: str) -> str:
        """Check ``commit`` out, detached, at ``tree_path``; return the entry's directory.

        ``name`` is the entry's, with a number when git has one of that name.
        Nothing is left behind on failure; what was at ``tree_path`` stays.
        """
        params = {"common": common, "tree_path": tree_path, "commit": commit}
        # Short, and half of it could not be undone: an entry's name is known only at its end.
        with trio.CancelScope(shield=True):
            admin_dir: str = await self._call(common, "create_entry", name=name, **params)
        try:
            await self._call(common, "check_out", admin_dir=admin_dir, **params)
        except BaseException:
            with trio.move_on_after(_CLEANUP_S, shield=True):
                await self.remove_worktree(common, admin_dir, tree_path)
            raise
        return admin_dir

    async def remove_worktree(self, common: str, admin_dir: str, tree_path: str) -> None:
        """Delete a worktree and its entry, either of which may be gone already.

        Whatever is not in a commit is lost: the caller has made sure of it.
        """
        await self._call(common, "delete_tree", directory=tree_path)
        await self.remove_entry(common, admin_dir, tree_path)

    async def find_entry(self, common: str, tree_path: str) -> str | None:
        """The directory of the entry that names a worktree, if there is one."""
        found: str | None = await self._call(
            common, "find_entry", common=common, tree_path=tree_path
        )
        return found

    async def remove_entry(self, common: str, admin_dir: str, tree_path: str) -> None:
        """Delete the entry of a worktree whose tree is gone; it may be gone itself."""
        await self._call(
            common, "remove_entry", common=common, admin_dir=admin_dir, tree_path=tree_path
        )

    async def snapshot(
        self,
        common: str,
        admin_dir: str,
        tree_path: str,
        *,
        ref: str | None,
        parents: Sequence[str],
        message: str,
    ) -> Snapshot:
        """Commit what is in a worktree and not ignored, deletions included.

        ``parents[0]`` says what is tracked. ``ref``, below refs/coachman/, is
        moved to the commit by compare-and-set. The worktree's own index and
        HEAD are not touched.
        """
        result = await self._call(
            common,
            "snapshot",
            common=common,
            admin_dir=admin_dir,
            tree_path=tree_path,
            ref=ref,
            parents=list(parents),
            message=message,
        )
        return Snapshot(**as_tuples(result))

    async def salvage(
        self,
        common: str,
        tree_path: str,
        *,
        run_refs: Sequence[str],
        base: str,
        ref: str,
        message: str,
        declared: Sequence[str],
        write: bool,
    ) -> Salvage:
        """Whether refs keep all that is in a worktree and its entry, either of which may be gone.

        ``run_refs`` are the task's records, newest first. With ``write``, what no ref
        keeps is committed under ``ref``, below refs/coachman/, and everything has
        reached the disk on return.
        """
        result = await self._call(
            common,
            "salvage",
            common=common,
            tree_path=tree_path,
            run_refs=list(run_refs),
            base=base,
            ref=ref,
            message=message,
            declared=list(declared),
            write=write,
        )
        return Salvage(**as_tuples(result))

    async def make_view(self, common: str, views: str, commit: str, git: str) -> str:
        """Keep a view of what a commit reaches below ``views``, unless there is one.

        ``git`` is git's own program. Returns what was packed: "nothing", "increment" or "whole".
        """
        # Whoever wants the same waits for the first, which takes no place of another operation's.
        async with self._views.setdefault((common, commit), trio.Lock()):
            made: str = await self._call(
                common, "make_view", common=common, views_dir=views, tip=commit, git=git
            )
        self._views.pop((common, commit), None)
        return made

    async def tidy_views(self, directory: str, unused_s: float) -> None:
        """Remove the views below a directory that no run used for so long."""
        await self._call(_NO_REPOSITORY, "tidy_views", directory=directory, unused_s=unused_s)

    async def show(
        self,
        common: str,
        admin_dir: str,
        *,
        base: str,
        views: str,
        target: str,
        config: str,
        git: str,
    ) -> Shown:
        """Fill the empty directory ``target`` with what a run sees of a repository.

        That is what its worktree's HEAD reaches, or ``base`` where that leads to no commit.
        """
        params = {"common": common, "admin_dir": admin_dir, "base": base, "views_dir": views}
        for _ in range(_SHOW_ATTEMPTS):
            result = await self._call(common, "show", target=target, config=config, **params)
            shown = Shown(**result)
            if shown.packs is not None:
                return shown
            await self.make_view(common, views, shown.tip, git)
        raise RepoError(FAILED, "cannot show the repository: its view is never there", "try again")

    async def measure(self, directory: str, *, key: str = _NO_REPOSITORY) -> Trimmed:
        """What is below a directory, which need not be there."""
        return Trimmed(**await self._call(key, "measure", directory=directory))

    async def trim(
        self, directory: str, patterns: Sequence[str], *, key: str = _NO_REPOSITORY
    ) -> Trimmed:
        """Delete the files below a directory whose names fit one of the shell patterns."""
        result = await self._call(key, "trim", directory=directory, patterns=list(patterns))
        return Trimmed(**result)

    async def diff(self, common: str, old: str, new: str) -> bytes:
        """The patch from ``old`` to ``new`` (commits or trees) for `git apply --index`."""
        _, patch = await self._request(common, "patch", {"common": common, "old": old, "new": new})
        return patch

    async def diff_names(self, common: str, old: str, new: str) -> tuple[FileChange, ...]:
        """Each changed path with its lines added and removed."""
        result = await self._call(common, "changes", common=common, old=old, new=new)
        return tuple(FileChange(**each) for each in result)

    async def hash_tree(self, directory: str, *, key: str = _NO_REPOSITORY) -> tuple[Artifact, ...]:
        """Each regular file below a directory. ``key`` names the worker to use."""
        result = await self._call(key, "hash_tree", directory=directory)
        return tuple(Artifact(**each) for each in result)

    async def copy_inputs(
        self, sources: Sequence[Mapping[str, str]], target: str
    ) -> list[dict[str, Any]]:
        """Copy each ``path`` to its ``name`` in ``target``; a row with the digest of each."""
        params = {"sources": [dict(each) for each in sources], "target": target}
        rows: list[dict[str, Any]] = await self._call(_NO_REPOSITORY, "copy_inputs", **params)
        return rows

    async def copy_files(
        self, top: str, names: Sequence[str], tree: str, *, key: str = _NO_REPOSITORY
    ) -> None:
        """Copy files and folders of a checkout to the same places of a worktree."""
        await self._call(key, "copy_files", top=top, names=list(names), tree=tree)

    async def read(self, directory: str, path: str, limit_bytes: int) -> bytes:
        """A file below ``directory``, reached through no link and of at most so many bytes."""
        _, content = await self._request(
            _NO_REPOSITORY,
            "read",
            {"directory": directory, "path": path, "limit_bytes": limit_bytes},
        )
        return content

    async def archive(self, source: str, target: str) -> Archived:
        """Move the regular files below ``source``, which may be gone, into ``target``."""
        result = await self._call(_NO_REPOSITORY, "archive", source=source, target=target)
        artifacts = tuple(Artifact(**each) for each in result["artifacts"])
        return Archived(artifacts, result["left_out"])

    async def hash_instructions(
        self, directory: str, subfolder: str, *, key: str = _NO_REPOSITORY
    ) -> tuple[Artifact, ...]:
        """The files by which a tree instructs agents, from its top to ``subfolder``."""
        result = await self._call(
            key, "hash_instructions", directory=directory, subfolder=subfolder
        )
        return tuple(Artifact(**each) for each in result)

    async def delete_tree(self, directory: str, *, key: str = _NO_REPOSITORY) -> None:
        """Delete a directory and all below it, whatever its depth and modes."""
        await self._call(key, "delete_tree", directory=directory)

    async def _call(self, key: str, operation: str, **params: Any) -> Any:
        result, _ = await self._request(key, operation, params)
        return result

    async def _request(
        self, key: str, operation: str, params: Mapping[str, Any]
    ) -> tuple[Any, bytes]:
        shown = {name: _portable(value) for name, value in params.items()}
        return await self._worker(key).request(operation, shown, self._limit_s)

    def _worker(self, key: str) -> WorkerProcess:
        if self._nursery is None:
            raise RuntimeError("cannot use GitWorkers outside `async with`")
        worker = self._workers.get(key)
        if worker is None or worker.ended:
            worker = WorkerProcess(self._python, self._idle_s)
            self._workers[key] = worker
            self._nursery.start_soon(self._run, key, worker)
        return worker

    async def _run(self, key: str, worker: WorkerProcess) -> None:
        try:
            await worker.run()
        finally:
            if self._workers.get(key) is worker:
                del self._workers[key]


def _portable(value: Any) -> Any:
    """The daemon's path text as the worker's, whatever either's locale is."""
    return text(os.fsencode(value)) if isinstance(value, str) else value
