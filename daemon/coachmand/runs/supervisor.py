"""All living runs of a daemon: started, found again after a crash, carried to their ends."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog
import trio

from .. import durable
from ..evidence.ids import is_run_id
from ..evidence.rundir import RunDirectory
from ..journal.damage import DamagedError
from ..journal.log import Journal, read_file
from ..redaction import Redactor
from .attempts.replay import fold, latest_checkpoint
from .control import inbox
from .control.leases import Leases
from .control.timing import SLEPT_AT_LEAST_S
from .credentials.environment import environment_of
from .credentials.logins import Logins
from .ending.rescue import Rescue
from .facts.clock import asleep_s
from .facts.record import Record
from .families import Families
from .intake import inputs
from .intake.acceptance import Acceptance
from .intake.planning import Planned
from .intake.request import StartRequest
from .intake.resumption import ResumeRequest
from .preparing.program import secret_names
from .reading.view import View
from .run import Run
from .services import Services
from .tasks import TaskStore
from .tidying.cleanup import Cleanup
from .tidying.retention import Retention

log = structlog.get_logger("supervisor")
RECOVERIES_AT_ONCE = 16
LOOK_AGAIN_S = 1.0
ASLEEP_EVERY_S = 5.0
CHECKPOINT_LIMIT_S = 5.0
# Who was told of runs hears of their ends, where that takes no longer.
FEEDS_LIMIT_S = 5.0


class Supervisor:
    """Runs by id. Each is a fault boundary: what fails in one is ended there."""

    def __init__(self, services: Services, nursery: trio.Nursery) -> None:
        self.services = services
        self.tasks = TaskStore(services.state)
        self.runs: dict[str, Run] = {}
        self.changes = 0
        self._handed_over: Mapping[str, Mapping[str, str]] = {}
        self._lot = trio.lowlevel.ParkingLot()
        self._nursery = nursery
        # The living runs of each task, and whether they write in it.
        self._users: dict[tuple[str, str], dict[str, bool]] = {}
        # Tasks in which no run may begin just now.
        self.cleaning: set[tuple[str, str]] = set()
        self.leases = Leases()
        self.cleanup = Cleanup(self)
        self.retention = Retention(services, self.tasks, self.cleanup)
        self.families = services.families = Families(self)
        services.logins = Logins(services)
        self.acceptance = Acceptance(self, self._open_journal, self._begin)
        self._rescue = Rescue(self)
        services.on_change = self._changed
        services.storage.on_change = self._storage_changed

    def __repr__(self) -> str:
        return f"<Supervisor of {len(self.runs)} runs, {self.services.admission!r}>"

    def _changed(self) -> None:
        self.changes += 1
        self._lot.unpark_all()

    def _storage_changed(self) -> None:
        storage = self.services.storage
        if not storage.ok:
            text = f"the store is {storage.state}: {storage.reason}"
            self.services.notices.put("degraded", {"text": text, "state": storage.state})
        self.services.admission.pause(not self.services.storage.ok, "storage")
        for run in list(self.runs.values()):
            run.post(inbox.StorageChanged())
        self._changed()

    async def wait_for_change(self, seen: int) -> None:
        """Sleep until some run changed since ``changes`` was ``seen``."""
        while self.changes == seen:
            await self._lot.park()

    def holder(self, repo: str, task: str) -> str | None:
        """The living run that writes in a task."""
        users = self._users.get((repo, task), {})
        return next((run for run, writes in users.items() if writes), None)

    def user(self, repo: str, task: str) -> str | None:
        """A living run that works in a task, the one that writes if there is one."""
        return self.holder(repo, task) or next(iter(self._users.get((repo, task), {})), None)

    def hold(self, record: Record) -> None:
        """Let ``record``'s run, which is about to live, work in its task."""
        key = record.repository.key, record.task
        self._users.setdefault(key, {})[record.run] = record.writes

    def release(self, record: Record) -> None:
        """The run works in its task no more."""
        key = record.repository.key, record.task
        users = self._users.get(key, {})
        users.pop(record.run, None)
        if not users:
            self._users.pop(key, None)

    # --- starting ---

    async def start(self, request: StartRequest, caller: str | None = None) -> tuple[Record, bool]:
        """Accept a run; returns its record and whether it is new. Raises RpcError.

        ``caller`` is the run that asks for it over its own socket, if it was one.
        """
        return await self.acceptance.start(request, caller)

    async def rehearse(
        self, request: StartRequest, caller: str | None = None
    ) -> tuple[Record, dict[str, Any]]:
        """What `start` would put on record, and the boundary it would have. Raises RpcError."""
        return await self.acceptance.rehearse(request, caller)

    async def resume(
        self, request: ResumeRequest, caller: str | None = None
    ) -> tuple[Record, bool]:
        """Accept a run that goes on in the session of one that has ended. Raises RpcError."""
        return await self.acceptance.resume(request, caller)

    def _open_journal(self, record: Record, environment: Mapping[str, str]) -> Journal:
        adapter = self.services.adapters[record.adapter]
        secrets = [environment[name] for name in secret_names(adapter, environment)]
        path = RunDirectory(self.services.state.run(record.run)).journal
        return Journal(
            path,
            record.run,
            Redactor(secrets),
            self.services.storage.write,
            self.services.order,
            record.source,
        )

    def _begin(self, planned: Planned, journal: Journal, view: View) -> None:
        record, environment = planned.record, planned.environment
        directory = RunDirectory(self.services.state.run(record.run))
        run = Run(record, directory, journal, view, self.services, environment, lent=planned.lent)
        self.carry(run)
        self.families.joined(run)
        if record.on_event is not None:
            self.services.feeds.add(record.run)

    # --- leaving ---

    async def settle(self, by: dict[str, Any] | None, limit_s: float | None = None) -> bool:
        """Accept nothing more; wait until no run is in a turn or, ended for ``by``, none lives.

        Whether that came within ``limit_s`` and while the disk could be written.
        """
        self.acceptance.leaving = True
        try:
            if by is not None:
                for run in list(self.runs.values()):
                    run.post(inbox.CancelAsked(by, inbox.Reply()))
            with trio.move_on_after(math.inf if limit_s is None else limit_s):
                while self._unsettled(by) and not self.services.storage.degraded:
                    with trio.move_on_after(LOOK_AGAIN_S):
                        await self.wait_for_change(self.changes)
            if by is not None and not self._unsettled(by):
                await self.services.feeds.settle(FEEDS_LIMIT_S)
            return not self._unsettled(by)
        except trio.Cancelled:
            # Whoever wanted it went away: nothing of it shall stay.
            self.acceptance.leaving = False
            raise

    def _unsettled(self, by: object) -> bool:
        return bool(self.runs) if by else self._has_turns()

    async def checkpoint(self) -> None:
        """Let each run save where it stands, so that another build need not replay it."""
        replies = []
        for run in list(self.runs.values()):
            replies.append(inbox.Reply())
            run.post(inbox.CheckpointAsked(replies[-1]))
        # One that is busy is replayed instead.
        with trio.move_on_after(CHECKPOINT_LIMIT_S):
            for reply in replies:
                await reply.wait()

    def _has_turns(self) -> bool:
        """Whether any run is in a turn, or has one to come: a parked one goes on in its keeper.

        One that waits for its next attempt has nobody in a turn, and the next daemon waits as well.
        """
        views = [run.view for run in self.runs.values()]
        waiting = [view for view in views if not view.is_between]
        return any(view.state != "parked" or view.queue for view in waiting)

    # --- finding again ---

    @property
    def lent(self) -> dict[str, dict[str, str]]:
        """What shells have lent to the living runs, by run."""
        return {name: dict(run.lent) for name, run in self.runs.items() if run.lent}

    async def recover(self, lent: Mapping[str, Mapping[str, str]]) -> None:
        """Bring every run back that had not ended: the ordinary start path.

        ``lent`` is what a daemon that restarted in place handed over, as its `lent` was.
        """
        self._handed_over = lent
        limiter = trio.CapacityLimiter(RECOVERIES_AT_ONCE)
        markers = await trio.to_thread.run_sync(_names, self.services.state.live)
        # Nobody gets a place before it is known whose provider takes no more.
        self.services.admission.pause(True, "recovering")
        async with trio.open_nursery() as nursery:
            for name in markers:
                nursery.start_soon(self._recover, name, limiter)
        self.services.admission.pause(False, "recovering")
        await self.families.recovered()
        self._nursery.start_soon(self.retention.keep, self.runs)
        self._nursery.start_soon(self._watch_sleep)

    async def _watch_sleep(self) -> None:
        """Timers stand still while the machine sleeps: wake every run once it has."""
        before_s = asleep_s()
        while True:
            await trio.sleep(ASLEEP_EVERY_S)
            if asleep_s() - before_s >= SLEPT_AT_LEAST_S:
                before_s = asleep_s()
                for run in list(self.runs.values()):
                    run.post(inbox.Slept())

    async def _recover(self, name: str, limiter: trio.CapacityLimiter) -> None:
        async with limiter:
            try:
                run = await trio.to_thread.run_sync(self.read, name)
            except durable.FullError:
                # Nothing of it was changed: it is read once there is room.
                self.services.storage.fill(f"the record of {name}")
                self._nursery.start_soon(self._recover_later, name)
            except Exception as error:
                # Kept as it is for a person to look at; the others go on.
                log.error("run_unreadable", run=name, exc_info=error)
            else:
                self._recovered(run)

    async def _recover_later(self, name: str) -> None:
        self._recovered(await self.services.storage.write(self.read, name))

    def _recovered(self, run: Run | None) -> None:
        if run is not None:
            run.found = {
                "state": run.view.state,
                "resumed_after": run.view.seq,
                "cut_bytes": run.journal.cut_bytes,
                "generation": self.services.generation,
            }
            run.attempts.hold()
            self.services.admission.expect(run.fixed.run)
            self.carry(run)

    def read(self, name: str, broken: str | None = None) -> Run | None:
        """A run as its files tell it; None for a marker whose run never came to be. Blocks.

        ``broken`` says why it is only to be ended.
        """
        state = self.services.state
        directory = RunDirectory(state.run(name))
        if not directory.path.exists():
            inputs.discard(state, name)
            durable.remove(state.feeds / name)
            durable.remove(state.live / name)
            return None
        record = _record(directory)
        self.tasks.add_run_once(record)
        # What the caller lent is in memory only: a restart in place hands it over, no death does.
        lent = self._handed_over.get(name, {})
        spec = self.services.adapters[record.adapter].spec
        declared = (*spec.environment, *record.walls.environment)
        environment, _ = environment_of(lent, record.agent, declared, self.services)
        journal = self._open_journal(record, environment)
        checkpoint = latest_checkpoint(directory.path / "attempts", journal.size)
        view = fold(directory.journal, journal.read, checkpoint)
        return Run(
            record,
            directory,
            journal,
            view,
            self.services,
            environment,
            lent=lent,
            broken=broken,
        )

    # --- carrying ---

    def carry(self, run: Run) -> None:
        """Let a run live until it has ended."""
        self.runs[run.fixed.run] = run
        self.hold(run.fixed)
        self._nursery.start_soon(self._live, run)

    async def _live(self, run: Run) -> None:
        try:
            await run.live()
        except Exception as error:
            await self._rescue.fell(run, error)
        else:
            await self.let_go(run)

    async def close(self, run: Run) -> None:
        """Close what is open of a run; an agent that lives goes on in its keeper."""
        for starting in run.let_go():
            await starting.abandon()

    async def let_go(self, run: Run) -> None:
        """Nobody carries the run any more."""
        await self.close(run)
        self.runs.pop(run.fixed.run, None)
        self.leases.forget(lambda name, _lease: name == run.fixed.run)
        self.release(run.fixed)
        self.families.over(run)
        self.services.logins.forget(run)
        self.services.admission.leave(run.fixed.run)
        self.services.admission.release(run.fixed.run)
        self.services.order.wake()
        self._changed()

    # --- looking up ---

    def lives(self, run: str) -> bool:
        """Whether a run has not ended yet."""
        return run in self.runs and self.runs[run].view.state != "ended"

    async def view_of(self, run: str) -> View:
        """What any run's journal says."""
        if run in self.runs:
            return self.runs[run].view
        path = RunDirectory(self.services.state.run(run)).journal
        return await trio.to_thread.run_sync(fold, path, partial(read_file, path))

    async def record_of(self, run: str) -> Record:
        """The record of any run, living or ended."""
        if run in self.runs:
            return self.runs[run].fixed
        directory = RunDirectory(self.services.state.run(run))
        return await trio.to_thread.run_sync(_record, directory)


def _record(directory: RunDirectory) -> Record:
    """The record of a run. Raises DamagedError where it makes no sense. Blocks."""
    found = directory.read_request()
    try:
        return Record.of_json(found)
    except Exception as error:  # whatever structuring it comes upon
        raise DamagedError(directory.request, f"it is no run's record: {error!r}") from error


def _names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if is_run_id(entry.name))
