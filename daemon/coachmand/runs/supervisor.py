"""All living runs of a daemon: started, found again after a crash, carried to their ends."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import trio

from .. import durable
from ..evidence.ids import is_run_id
from ..evidence.rundir import RunDirectory
from ..journal import vocabulary as v
from ..journal.lines import Entry
from ..journal.log import Journal, read_file
from ..redaction import Redactor
from ..rpc.errors import RpcError
from . import inbox, keys
from .keepers import KeeperError, end_keeper
from .prepare import secret_names
from .record import Record
from .replay import fold, latest_checkpoint
from .request import Planned, StartRequest, plan
from .run import Run
from .services import Services
from .tasks import TaskStore
from .view import View

log = structlog.get_logger("supervisor")
RECOVERIES_AT_ONCE = 16
LOOK_AGAIN_S = 1.0


class Supervisor:
    """Runs by id. Each is a fault boundary: what fails in one is ended there."""

    def __init__(self, services: Services, nursery: trio.Nursery) -> None:
        self.services = services
        self.tasks = TaskStore(services.state)
        self.runs: dict[str, Run] = {}
        self.changes = 0
        self._leaving = False
        self._keys: dict[str, trio.Lock] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self._nursery = nursery
        self._holders: dict[tuple[str, str], str] = {}
        services.on_change = self._changed

    def __repr__(self) -> str:
        return f"<Supervisor of {len(self.runs)} runs, {self.services.admission!r}>"

    def _changed(self) -> None:
        self.changes += 1
        self._lot.unpark_all()

    async def wait_for_change(self, seen: int) -> None:
        """Sleep until some run changed since ``changes`` was ``seen``."""
        while self.changes == seen:
            await self._lot.park()

    def holder(self, repo: str, task: str) -> str | None:
        """The living run that writes in a task."""
        return self._holders.get((repo, task))

    # --- starting ---

    async def start(self, request: StartRequest) -> tuple[Record, bool]:
        """Accept a run; returns its record and whether it is new. Raises RpcError."""
        self._check_means(request)
        planned = await plan(request, self.services, self.tasks)
        record = planned.record
        if request.dry_run:
            return record, False
        # From here on all or nothing: a caller that goes must not leave half a run behind.
        with trio.CancelScope(shield=True):
            async with self._starting(request.request_key):
                started = await self._claim_and_begin(request, planned)
        return started

    @asynccontextmanager
    async def _starting(self, request_key: str | None) -> AsyncIterator[None]:
        """One start at a time for a key, so that a claim without a run is a crash's."""
        if request_key is None:
            yield
            return
        lock = self._keys.setdefault(request_key, trio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting:
                self._keys.pop(request_key, None)

    async def _claim_and_begin(
        self, request: StartRequest, planned: Planned
    ) -> tuple[Record, bool]:
        record, state = planned.record, self.services.state
        if request.request_key is not None:
            held = await trio.to_thread.run_sync(
                keys.claim, state.keys, request, record.run, state.runs
            )
            if held != record.run:
                return await self.record_of(held), False
        try:
            await self._begin(planned)
        except BaseException:
            await trio.to_thread.run_sync(keys.release, state.keys, request)
            raise
        return record, True

    def _check_means(self, request: StartRequest) -> None:
        services = self.services
        if self._leaving:
            raise RpcError(
                "Busy",
                "cannot start: the daemon is about to leave",
                hint="start the run once it has",
                retryable=True,
                retry_after_s=5,
            )
        if not services.storage.ok:
            raise RpcError(
                "Degraded",
                f"cannot start: {services.storage.reason}",
                hint="make room or mend the disk, then: coachman daemon restart",
            )
        probe = services.boundary.probe
        if not probe.ok:
            raise RpcError("BoundaryUnavailable", f"cannot start: {probe.cause}", hint=probe.remedy)
        admission = services.admission
        if request.no_wait and admission.active >= admission.limit:
            detail = {"source": "local", "limit": admission.limit, "active": admission.active}
            raise RpcError(
                "Busy",
                f"cannot start: {admission.active} of {admission.limit} runs are active",
                hint="leave no_wait out to queue",
                retryable=True,
                retry_after_s=5,
                detail=detail,
            )

    async def _begin(self, planned: Planned) -> None:
        record = planned.record
        slot = (record.repository.key, record.task)
        holder = self._holders.get(slot)
        if holder is not None:
            raise RpcError(
                "Conflict",
                f"cannot start: run {holder[-5:]} works in task {record.task}",
                hint="wait for it, cancel it, or name another task with -t",
                detail={"holder": holder},
                next=[["coachman", "wait", holder[-5:]], ["coachman", "cancel", holder[-5:]]],
            )
        self._holders[slot] = record.run
        try:
            journal = await trio.to_thread.run_sync(self._write_intent, planned)
            view = View()
            queued = Entry(v.RUN_QUEUED, {"policy_digest": record.policy_digest})
            for event in await journal.append([queued], {}):
                view.apply(event)
        except durable.DiskError as error:
            self._holders.pop(slot, None)
            self.services.storage.degrade(error, "a run's record")
            raise RpcError("Degraded", f"cannot start: {self.services.storage.reason}") from error
        except BaseException:
            self._holders.pop(slot, None)
            raise
        self._carry(self._run(record, journal, view, planned.environment))

    def _write_intent(self, planned: Planned) -> Journal:
        """A run's record is durable before its worktree, branch or process exists. Blocks."""
        record, state = planned.record, self.services.state
        durable.mark(state.live / record.run)
        try:
            RunDirectory(state.run(record.run)).create(record.as_json(), planned.prompt)
            self.tasks.add_run(planned.task, record.run)
            return self._open_journal(record, planned.environment)
        except BaseException:
            # Without its mark nobody takes it for a run that is to be carried on.
            durable.remove(state.live / record.run)
            raise

    def _open_journal(self, record: Record, environment: Mapping[str, str]) -> Journal:
        adapter = self.services.adapters[record.adapter]
        secrets = [environment[name] for name in secret_names(adapter, environment)]
        path = RunDirectory(self.services.state.run(record.run)).journal
        return Journal(path, record.run, Redactor(secrets))

    def _run(
        self, record: Record, journal: Journal, view: View, environment: Mapping[str, str]
    ) -> Run:
        directory = RunDirectory(self.services.state.run(record.run))
        return Run(record, directory, journal, view, self.services, environment)

    # --- leaving ---

    async def settle(self, by: dict[str, Any] | None) -> None:
        """Accept no more runs and wait until none lives; with ``by``, end them first."""
        self._leaving = True
        try:
            if by is not None:
                for run in list(self.runs.values()):
                    run.post(inbox.CancelAsked(by, inbox.Reply()))
            while self.runs and self.services.storage.ok:
                with trio.move_on_after(LOOK_AGAIN_S):
                    await self.wait_for_change(self.changes)
        except trio.Cancelled:
            # Whoever wanted it went away: nothing of it shall stay.
            self._leaving = False
            raise

    # --- finding again ---

    async def recover(self) -> None:
        """Bring every run back that had not ended: the ordinary start path."""
        limiter = trio.CapacityLimiter(RECOVERIES_AT_ONCE)
        markers = await trio.to_thread.run_sync(_names, self.services.state.live)
        async with trio.open_nursery() as nursery:
            for name in markers:
                nursery.start_soon(self._recover, name, limiter)

    async def _recover(self, name: str, limiter: trio.CapacityLimiter) -> None:
        async with limiter:
            try:
                run = await trio.to_thread.run_sync(self._read, name)
            except Exception as error:
                # Kept as it is for a person to look at; the others go on.
                log.error("run_unreadable", run=name, exc_info=error)
                return
            if run is None:
                return
            members = {
                "state": run.view.state,
                "resumed_after": run.view.seq,
                "cut_bytes": run.journal.cut_bytes,
                "generation": self.services.generation,
            }
            try:
                if run.view.state != "ended":
                    await run.record([Entry(v.RUN_RECOVERED, members)])
            except durable.DiskError as error:
                # As when a living run's journal is refused: its agent goes on in its keeper.
                self.services.storage.degrade(error, f"the journal of {run.fixed.handle}")
                run.let_go()
                return
            self._carry(run)

    def _read(self, name: str, *, broken: bool = False) -> Run | None:
        """A run as its files tell it; None for a marker whose run never came to be. Blocks."""
        state = self.services.state
        directory = RunDirectory(state.run(name))
        if not directory.path.exists():
            durable.remove(state.live / name)
            return None
        record = Record.of_json(directory.read_request())
        self.tasks.add_run_once(record)
        # What the caller lent was in memory only: the daemon's own variables are left.
        environment = dict(self.services.environment)
        journal = self._open_journal(record, environment)
        view = fold(journal.read, latest_checkpoint(directory.path / "attempts", journal.size))
        return Run(record, directory, journal, view, self.services, environment, broken=broken)

    # --- carrying ---

    def _carry(self, run: Run) -> None:
        self.runs[run.fixed.run] = run
        self._holders[run.fixed.repository.key, run.fixed.task] = run.fixed.run
        self._nursery.start_soon(self._live, run)

    async def _live(self, run: Run) -> None:
        try:
            await run.live()
        except Exception as error:
            if (refused := _disk_error(error)) is not None:
                # The agent goes on in its keeper; a later daemon takes the run up again.
                self.services.storage.degrade(refused, f"the journal of {run.fixed.handle}")
                await self._close(run)
                self.runs.pop(run.fixed.run, None)
                self._changed()
                return
            log.error("run_failed", run=run.fixed.run, again=not run.broken, exc_info=error)
            await self._again(run)
        else:
            await self._let_go(run)

    async def _again(self, run: Run) -> None:
        """Something unexpected: take the run up once more from its log, then end it."""
        await self._close(run)
        tried = run.taken_up_again
        if run.broken:
            await self._end_agent(run)
            await self._let_go(run)
            return
        try:
            found = await trio.to_thread.run_sync(lambda: self._read(run.fixed.run, broken=tried))
        except Exception as error:
            # Kept as it is for a person to look at; the others go on.
            log.error("run_unreadable", run=run.fixed.run, exc_info=error)
            found = None
        if found is None:
            await self._end_agent(run)
            await self._let_go(run)
        else:
            found.environment = run.environment
            found.taken_up_again = True
            self._carry(found)

    async def _end_agent(self, run: Run) -> None:
        """Nobody carries the run any more: its agent must not go on unwatched."""
        path = run.directory.attempt(run.view.attempt)
        try:
            await trio.to_thread.run_sync(end_keeper, path)
        except (KeeperError, OSError) as error:
            log.error("orphans_live", run=run.fixed.run, error=str(error))

    async def _close(self, run: Run) -> None:
        for starting in run.let_go():
            await starting.abandon()

    async def _let_go(self, run: Run) -> None:
        await self._close(run)
        self.runs.pop(run.fixed.run, None)
        self._holders.pop((run.fixed.repository.key, run.fixed.task), None)
        self.services.admission.leave(run.fixed.run)
        self._changed()

    # --- looking up ---

    async def view_of(self, run: str) -> View:
        """What any run's journal says."""
        if run in self.runs:
            return self.runs[run].view
        path = RunDirectory(self.services.state.run(run)).journal
        return await trio.to_thread.run_sync(fold, partial(read_file, path))

    async def record_of(self, run: str) -> Record:
        """The record of any run, living or ended."""
        if run in self.runs:
            return self.runs[run].fixed
        directory = RunDirectory(self.services.state.run(run))
        found = await trio.to_thread.run_sync(directory.read_request)
        return Record.of_json(found)


def _names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if is_run_id(entry.name))


def _disk_error(error: BaseException) -> durable.DiskError | None:
    """The refusal of the disk in what a run raised, if that is what it was."""
    if isinstance(error, BaseExceptionGroup):
        return next((e for inner in error.exceptions if (e := _disk_error(inner))), None)
    return error if isinstance(error, durable.DiskError) else None
