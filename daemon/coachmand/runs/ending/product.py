"""What a run left behind: its tree on record, what changed in it, its artifacts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio
from attrs import asdict, evolve, field, frozen

from ...repos.errors import RepoError
from ..preparing.shown import hide_repository
from ..preparing.worktree import admin_dir
from . import outputs

if TYPE_CHECKING:
    from ...repos.records import FileChange
    from ..run import Run

MAX_ROWS = 1000
MAX_LEFT_OUT = 20


@frozen
class Product:
    """What a run left behind, and its cost. ``start`` and ``commit`` are what `diff` compares."""

    start: str | None = None
    commit: str | None = None
    files: tuple[dict[str, Any], ...] = ()
    artifacts: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    totals: Mapping[str, int] = field(factory=lambda: {"files": 0, "added": 0, "removed": 0})
    artifact_bytes: int = 0
    missing: str = ""
    tree: str | None = None
    cost: dict[str, Any] | None = None


async def product_of(run: "Run") -> Product:
    """Record the worktree under ``refs/coachman/run/<run>`` and look at what changed.

    Where git cannot, the work stays in the worktree and a warning says so.
    """
    if run.view.attempt == 0:
        await hide_repository(run.directory)
        return Product()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outputs.clear_scratch, run)
        nursery.start_soon(hide_repository, run.directory)
        found = await _changes_of(run)
        kept = await outputs.archive(run)
    return evolve(
        found,
        artifacts=tuple(_nameable(asdict(artifact)) for artifact in kept.artifacts[:MAX_ROWS]),
        artifact_bytes=sum(artifact.size for artifact in kept.artifacts),
        missing=outputs.missing(run.fixed.artifacts, kept),
        warnings=(*found.warnings, *map(_shown, kept.warnings)),
    )


async def _changes_of(run: "Run") -> Product:
    try:
        if run.view.commits is not None:
            found = await _look_at(run, run.view.commits["from"], run.view.commits["to"])
            return evolve(found, tree=run.view.tree)
        if run.view.check is not None and run.view.recorded is not None:
            return await _look_at_recorded(run, run.view.recorded)
    except RepoError as error:
        return Product(warnings=(await _not_recorded(run, error),))
    return await record_tree(run)


async def _look_at_recorded(run: "Run", recorded: Mapping[str, Any]) -> Product:
    """The tree as it was before the check, which may have left something behind."""
    found = await _look_at(run, recorded["from"], recorded["to"], *recorded["warnings"])
    return evolve(found, tree=recorded.get("tree"))


async def record_tree(run: "Run") -> Product:
    """Move ``refs/coachman/run/<run>`` to the tree as it is; a warning says where that failed."""
    try:
        return await _record_tree(run)
    except RepoError as error:
        return Product(warnings=(await _not_recorded(run, error),))


async def _not_recorded(run: "Run", error: RepoError) -> str:
    kept = await trio.Path(run.fixed.worktree).is_dir()
    where = "it is in the worktree only" if kept else "its worktree is gone"
    return _shown(f"what this run changed was not recorded, {where}: {error.message}")


async def _record_tree(run: "Run") -> Product:
    record, workers = run.fixed, run.services.workers
    repo = record.repository
    start = run.view.site.start or repo.base
    if not record.writes:
        return await _look_at(run, start, start)
    snapshot = await workers.snapshot(
        repo.common_dir,
        admin_dir(record, run.view.site.admin),
        record.worktree,
        ref=f"refs/coachman/run/{record.run}",
        parents=(start,),
        message=f"coachman: run {record.run}, task {record.task}",
    )
    left_out = (f"left out: {path}" for path in snapshot.left_out[:MAX_LEFT_OUT])
    found = await _look_at(run, start, snapshot.commit, *snapshot.warnings, *left_out)
    return evolve(found, tree=snapshot.tree)


async def _look_at(run: "Run", start: str | None, commit: str | None, *warnings: str) -> Product:
    """What lies between two commits."""
    workers = run.services.workers
    files: tuple[FileChange, ...] = ()
    if start is not None and commit is not None and start != commit:
        files = await workers.diff_names(run.fixed.repository.common_dir, start, commit)
    return Product(
        start,
        commit,
        tuple(_nameable(asdict(change)) for change in files[:MAX_ROWS]),
        warnings=tuple(_shown(warning) for warning in warnings),
        totals={
            "files": len(files),
            "added": sum(change.added for change in files),
            "removed": sum(change.removed for change in files),
        },
    )


def _nameable(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "path": _shown(row["path"])}


def _shown(name: str) -> str:
    """A name that may hold any bytes, as text that JSON can hold: others as \\xNN."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
