"""What ended runs left and can go: chosen, kept by a ref where need be, removed, recorded.

A worktree and the agents' homes belong to a task and go when all of its runs may; raw
logs belong to a run. Each step is on record before the next one begins, so that
whatever is interrupted is finished by the next cleanup.
"""

import sqlite3
import time
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Protocol

import msgspec
import structlog
import trio
from attrs import define, evolve, field, frozen

from ... import durable
from ...evidence.index import Leftover
from ...evidence.rundir import RunDirectory
from ...failpoints import reach
from ...repos.errors import RepoError
from ...repos.records import Salvage
from ..keepers.starting import keeper_alive
from ..services import Services
from ..tasks import MAKING, Task, TaskStore
from .removal import private_of, remove_logs, remove_worktree

log = structlog.get_logger("cleanup")
TaskKey = tuple[str, str]


@frozen
class Wanted:
    """Which ended runs, and what of theirs. Without ``runs`` and ``tasks`` all are meant.

    ``salvage``: what no ref keeps is kept by one first; else such a worktree stays.
    """

    runs: frozenset[str] = frozenset()
    tasks: frozenset[TaskKey] = frozenset()
    older_than_s: float | None = None
    larger_than: int = 0
    outcomes: tuple[str, ...] = ()
    worktrees: bool = True
    logs: bool = True
    salvage: bool = True
    dry_run: bool = False

    @property
    def ended_before_ms(self) -> int | None:
        """Before when a run must have ended."""
        if self.older_than_s is None:
            return None
        return time.time_ns() // 1_000_000 - int(self.older_than_s * 1000)

    def chooses(self, run: Leftover) -> bool:
        """Whether the selectors, all of them, mean this run."""
        named = not (self.runs or self.tasks) or (
            run.run in self.runs or (run.repo, run.task) in self.tasks
        )
        return named and (not self.outcomes or run.outcome in self.outcomes)


@define
class Cleaned:
    """What became, or would become, of one task and of those of its runs that were chosen.

    ``state`` of its worktree and homes: "removed", "kept" for the reason ``why``, or
    "gone" since an earlier time; None where they were not asked about.
    """

    repo: str
    task: str
    runs: list[Leftover]
    toplevel: str | None = None
    worktree: str | None = None
    state: str | None = None
    why: str | None = None
    hint: str | None = None
    found: Salvage | None = None
    ref: str | None = None
    home_bytes: int = 0
    log_bytes: int = 0
    freed: list[str] = field(factory=list)

    @property
    def bytes(self) -> int:
        """What it gives back in all."""
        tree = self.found.bytes if self.found and self.state == "removed" else 0
        homes = self.home_bytes if self.state == "removed" else 0
        return tree + homes + self.log_bytes


class House(Protocol):
    """What cleaning up needs to know of those that live."""

    services: Services
    tasks: TaskStore
    cleaning: set[TaskKey]

    def user(self, repo: str, task: str) -> str | None: ...


class Cleanup:
    """One at a time."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._services = house.services
        self._turn = trio.Lock()

    def __repr__(self) -> str:
        return f"<Cleanup {'at work' if self._turn.locked() else 'at rest'}>"

    async def run(self, wanted: Wanted) -> list[Cleaned]:
        """Remove what is wanted, or only say what would go."""
        async with self._turn:
            index = self._services.index
            rows = await trio.to_thread.run_sync(index.leftovers, wanted.ended_before_ms)
            done = []
            for (repo, task), group in groupby(rows, lambda row: (row.repo, row.task)):
                if chosen := [row for row in group if wanted.chooses(row)]:
                    cleaned = await self._task(wanted, Cleaned(repo, task, chosen))
                    if cleaned.bytes >= wanted.larger_than:
                        done.append(cleaned)
            return done

    async def finish(self) -> None:
        """Go on with every removal that a daemon's death interrupted."""
        async with self._turn:
            going = await trio.to_thread.run_sync(
                lambda: [task for task in self._house.tasks.all() if task.going]
            )
            for task in going:
                cleaned = Cleaned(task.repo, task.name, [], worktree=task.worktree)
                await self._held(Wanted(logs=False), cleaned, task)

    async def _task(self, wanted: Wanted, cleaned: Cleaned) -> Cleaned:
        get = self._house.tasks.get
        task = await trio.to_thread.run_sync(get, cleaned.repo, cleaned.task)
        if wanted.larger_than and not wanted.dry_run:
            would = await self._look(wanted, evolve(cleaned), task)
            if would.bytes < wanted.larger_than:
                return would
        if wanted.dry_run:
            return await self._look(wanted, cleaned, task)
        return await self._held(wanted, cleaned, task)

    async def _held(self, wanted: Wanted, cleaned: Cleaned, task: Task | None) -> Cleaned:
        """Clean up while no run can begin in the task."""
        key = (cleaned.repo, cleaned.task)
        self._house.cleaning.add(key)
        try:
            # Logs first: that gives room without taking any.
            if wanted.logs:
                await self._logs(cleaned)
            await self._worktree(wanted, cleaned, task, write=True)
        except RepoError as error:
            cleaned.state, cleaned.why, cleaned.hint = "kept", error.message, error.hint
        except durable.DiskError as error:
            cleaned.state, cleaned.why = "kept", f"cannot put it on record: {error.strerror}"
        finally:
            self._house.cleaning.discard(key)
        await self._record(wanted, cleaned)
        return cleaned

    async def _look(self, wanted: Wanted, cleaned: Cleaned, task: Task | None) -> Cleaned:
        try:
            await self._worktree(wanted, cleaned, task, write=False)
        except RepoError as error:
            cleaned.state, cleaned.why, cleaned.hint = "kept", error.message, error.hint
        if wanted.logs:
            cleaned.log_bytes = sum(run.log_bytes for run in cleaned.runs)
        return cleaned

    # --- a task's worktree and homes ---

    async def _worktree(
        self, wanted: Wanted, cleaned: Cleaned, task: Task | None, *, write: bool
    ) -> None:
        if not wanted.worktrees or task is None:
            return
        cleaned.toplevel, cleaned.worktree = task.toplevel, task.worktree
        if task.is_gone:
            cleaned.state = "gone"
            return
        if (why := await self._needed(task, cleaned.runs)) is not None:
            cleaned.state, cleaned.why = "kept", why
            return
        await self._inspect(wanted, cleaned, task, write=write)
        if cleaned.state == "removed" and write:
            assert cleaned.found is not None
            reach("cleanup.salvaged")
            if not task.going:
                store, kept = self._house.tasks, cleaned.found.commit
                going = store.set_going
                task = await trio.to_thread.run_sync(going, task.repo, task.name, kept)
                reach("cleanup.going")
            await remove_worktree(self._services, task)

    async def _needed(self, task: Task, chosen: Iterable[Leftover]) -> str | None:
        """Why the worktree is still somebody's, if it is."""
        if (user := self._house.user(task.repo, task.name)) is not None:
            return f"run {user[-5:]} works in it"
        living = await trio.to_thread.run_sync(self._living, task)
        if living:
            return f"run {living[-5:]} may still live: nothing recorded its end"
        index = self._services.index
        # What is going already was decided about.
        others = set() if task.going else set(task.runs) - {run.run for run in chosen}
        for run in sorted(others):
            summary = await trio.to_thread.run_sync(index.get, run)
            if summary is not None and not summary.get("cleaned"):
                return f"run {run[-5:]} worked in it as well and was not chosen"
        return None

    def _living(self, task: Task) -> str | None:
        """A run of the task that is marked as living, or whose agent has a keeper. Blocks."""
        state = self._services.state
        for run in task.runs:
            attempts = state.run(run) / "attempts"
            paths = list(attempts.iterdir()) if attempts.is_dir() else []
            if (state.live / run).exists() or any(keeper_alive(path) for path in paths):
                return run
        return None

    async def _inspect(self, wanted: Wanted, cleaned: Cleaned, task: Task, *, write: bool) -> None:
        """Find out whether it may go; with ``write``, what no ref keeps is kept by one now."""
        workers = self._services.workers
        for path in private_of(self._services, task):
            cleaned.home_bytes += (await workers.measure(str(path))).bytes
        lost = not task.common_dir or not await trio.Path(task.common_dir).is_dir()
        if task.going or task.admin == MAKING or lost:
            await self._without_git(cleaned, task)
            return
        ref = f"refs/coachman/salvage/{task.runs[-1]}"
        found = cleaned.found = await workers.salvage(
            task.common_dir,
            task.worktree,
            run_refs=[f"refs/coachman/run/{run}" for run in reversed(task.runs)],
            base=task.base,
            ref=ref,
            message=f"coachman: what task {task.name} held beyond its runs' records",
            declared=self._services.config.retention.keep_ignored,
            write=write and wanted.salvage,
        )
        if found.refused:
            cleaned.state, cleaned.why = "kept", "no commit can hold " + "; ".join(found.refused)
            cleaned.hint = f"move it out of {task.worktree} or delete it there, then clean up again"
        elif found.differs and not wanted.salvage:
            cleaned.state, cleaned.why = "kept", "it holds " + ", ".join(found.differs)
            cleaned.hint = f"coachman cleanup {task.name} keeps that in a salvage record first"
        else:
            cleaned.state = "removed"
            cleaned.ref = ref if found.differs else None

    async def _without_git(self, cleaned: Cleaned, task: Task) -> None:
        """A tree that is going already, that no agent was in yet, or whose repository is gone.

        Or none at all: of a sealed task there are the homes only.
        """
        if not task.worktree:
            cleaned.found = Salvage(None, task.base, None, (), (), 0, 0, 0)
            cleaned.state = "removed"
            return
        tree = await self._services.workers.measure(task.worktree)
        commit = task.kept or task.base
        cleaned.found = Salvage(None, commit, None, (), (), tree.bytes, 0, 0)
        cleaned.state = "removed"
        is_lost = not (task.going or task.admin == MAKING)
        if is_lost and await trio.Path(task.worktree).exists():
            cleaned.state = "kept"
            cleaned.why = f"its repository {task.common_dir} is gone, and with it all that kept it"
            cleaned.hint = f"copy what you need from {task.worktree}, delete that, clean up again"

    # --- a run's raw logs ---

    async def _logs(self, cleaned: Cleaned) -> None:
        for run in cleaned.runs:
            cleaned.log_bytes += await remove_logs(self._services, run.run)
            cleaned.freed.append(run.run)
            reach("cleanup.logs_deleted")

    # --- what is on record about it ---

    async def _record(self, wanted: Wanted, cleaned: Cleaned) -> None:
        is_gone = cleaned.state in ("removed", "gone")
        try:
            await trio.to_thread.run_sync(self._mark, cleaned, is_gone)
        except (durable.DiskError, sqlite3.Error) as error:
            # The next cleanup, which finds nothing else to do, tells it.
            log.warning("cleanup_not_told", task=cleaned.task, repo=cleaned.repo, error=str(error))
        if cleaned.state == "removed" or cleaned.log_bytes:
            log.info(
                "cleaned_up",
                task=cleaned.task,
                repo=cleaned.repo,
                worktree=cleaned.state,
                salvage=cleaned.ref,
                logs_of=len(cleaned.freed),
                bytes=cleaned.bytes,
            )
        if cleaned.why is not None and wanted.salvage:
            log.info("worktree_kept", task=cleaned.task, repo=cleaned.repo, why=cleaned.why)

    def _mark(self, cleaned: Cleaned, is_gone: bool) -> None:
        """Let results and index tell what is gone. Blocks; what it writes can be told again."""
        state, now_ms = self._services.state, time.time_ns() // 1_000_000
        summaries = []
        for run in cleaned.runs:
            directory = RunDirectory(state.run(run.run))
            try:
                result = directory.read_result() or {}
            except (OSError, ValueError, msgspec.DecodeError):
                continue
            told = _told(result, now_ms, logs=run.run in cleaned.freed, worktree=is_gone)
            if told is None or "summary" not in result:
                continue
            summary = result["summary"]
            if told != result.get("cleaned"):
                summary = _summary(summary, told)
                directory.replace_result({**result, "cleaned": told, "summary": summary})
                reach("cleanup.told")
            # A daemon that was killed here before has told the result only.
            summaries.append(summary)
        self._services.index.put(summaries)


def _told(
    result: dict[str, Any], now_ms: int, *, logs: bool, worktree: bool
) -> dict[str, int | None] | None:
    """Since when what of a run is gone; None where all of it is there."""
    told = result.get("cleaned") or {}
    logs_at = told.get("logs_at") or (now_ms if logs else None)
    worktree_at = told.get("worktree_at") or (now_ms if worktree else None)
    return {"logs_at": logs_at, "worktree_at": worktree_at} if logs_at or worktree_at else None


def _summary(summary: dict[str, Any], told: dict[str, int | None]) -> dict[str, Any]:
    made = {**summary, "cleaned": all(told.values())}
    if told["logs_at"]:
        made["bytes"] = (summary.get("bytes") or 0) - (summary.get("log_bytes") or 0)
        made["log_bytes"] = 0
    return made
