"""From a request to a run that is on record: a whole one or none."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import trio
from attrs import evolve

from coachman_sandbox.probe import needed_by

from ... import durable, ownership
from ...evidence.rundir import RunDirectory, encode_prompt, seal_of
from ...failpoints import reach
from ...journal import vocabulary as v
from ...journal.lines import Entry
from ...journal.log import Journal
from ...rpc.errors import RpcError
from ..admission import Admission
from ..ending import sentinel
from ..facts.record import Record
from ..families import Families
from ..following import feeds
from ..locks import Locks
from ..preparing import compiled
from ..reading.view import View
from ..services import Services
from ..tasks import TaskStore
from ..tidying.retention import Retention
from ..tidying.space import check_room
from . import inputs, keys, resumption
from .heritage import Heritage
from .planning import Planned, plan
from .request import StartRequest
from .resumption import ResumeRequest

if TYPE_CHECKING:
    from ..run import Run

Opening = Callable[[Record, Mapping[str, str]], Journal]
Beginning = Callable[[Planned, Journal, View], None]


class House(Protocol):
    """What accepting a run needs to know of those that there are."""

    services: Services
    tasks: TaskStore
    families: Families
    runs: "dict[str, Run]"
    cleaning: set[tuple[str, str]]
    retention: Retention

    def holder(self, repo: str, task: str) -> str | None: ...
    def hold(self, record: Record) -> None: ...
    def release(self, record: Record) -> None: ...
    def lives(self, run: str) -> bool: ...
    async def record_of(self, run: str) -> Record: ...


class Acceptance:
    """Takes runs in while the daemon is not ``leaving``. What ``begin`` gets, it carries on."""

    def __init__(self, house: House, open_journal: Opening, begin: Beginning) -> None:
        self._house = house
        self._services = house.services
        self._open_journal = open_journal
        self._begin = begin
        self._keys = Locks()
        self.leaving = False

    def __repr__(self) -> str:
        return f"<Acceptance {'closed' if self.leaving else 'open'}>"

    async def start(self, request: StartRequest, caller: str | None = None) -> tuple[Record, bool]:
        """Accept a run; returns its record and whether it is new. Raises RpcError.

        ``caller`` is the run that starts it, over its own socket: the new one is its child.
        """
        return await self._accept(request, await self._plan(request, caller))

    async def rehearse(
        self, request: StartRequest, caller: str | None = None
    ) -> tuple[Record, dict[str, Any]]:
        """The record of a run that could be accepted, and its boundary as it would be compiled.

        Nothing is made or claimed. Raises RpcError.
        """
        planned = await self._plan(request, caller)
        made = compiled.document(planned.policy, planned.command, planned.program, self._services)
        return planned.record, made

    async def _plan(self, request: StartRequest, caller: str | None) -> Planned:
        self._check_means(request.no_wait)
        if caller is None:
            planned = await plan(request, self._services, self._house.tasks)
        else:
            heritage = self._heritage(caller)
            planned = await self._plan_below(await heritage.bounded(request), heritage)
        await self._check_boundary(planned)
        return planned

    def _heritage(self, caller: str) -> Heritage:
        return Heritage(self._house.runs[caller], self._house.families, self._house.tasks)

    async def _plan_below(self, request: StartRequest, heritage: Heritage) -> Planned:
        ancestors = heritage.ancestors
        planned = await plan(request, self._services, self._house.tasks, ancestors=ancestors)
        return await heritage.check(planned)

    async def resume(
        self, request: ResumeRequest, caller: str | None = None
    ) -> tuple[Record, bool]:
        """Accept a run in the session of one that has ended. Raises RpcError.

        ``caller`` is the run that resumes one of those below it.
        """
        heritage = None if caller is None else self._heritage(caller)
        state = self._services.state
        if request.request_key is not None:
            held = await trio.to_thread.run_sync(
                keys.holder, state.keys, request.request_key, state.runs
            )
            # A task's name means its newest run, which is now the one that was started.
            if held is not None and held == request.run:
                return await self._house.record_of(held), False
        self._check_means(request.no_wait)
        planned = await resumption.plan_again(request, self._house, heritage)
        await self._check_boundary(planned)
        return await self._accept(request, planned)

    async def _accept(
        self, request: StartRequest | ResumeRequest, planned: Planned
    ) -> tuple[Record, bool]:
        # From here on all or nothing: a caller that goes must not leave half a run behind.
        with trio.CancelScope(shield=True):
            # One start at a time for a key, so that a claim without a run is a crash's.
            async with self._keys.held(request.request_key):
                accepted = await self._claim_and_begin(request, planned)
        return accepted

    async def _claim_and_begin(
        self, request: StartRequest | ResumeRequest, planned: Planned
    ) -> tuple[Record, bool]:
        record, state = planned.record, self._services.state
        if request.request_key is not None:
            held = await trio.to_thread.run_sync(
                keys.claim, state.keys, request, record.run, state.runs
            )
            if held != record.run:
                return await self._house.record_of(held), False
            reach("start.claimed")
        try:
            await self._put_on_record(planned)
        except BaseException:
            await trio.to_thread.run_sync(keys.release, state.keys, request)
            raise
        return record, True

    def check_open(self, verb: str) -> None:
        """Raise RpcError Busy where the daemon is about to leave."""
        if self.leaving:
            raise RpcError(
                "Busy",
                f"cannot {verb}: the daemon is about to leave",
                hint=f"{verb} again once it has",
                retryable=True,
                retry_after_s=5,
            )

    def _check_means(self, no_wait: bool) -> None:
        services = self._services
        self.check_open("start")
        services.storage.check("start")
        self._check_room()
        admission = services.admission
        if no_wait and admission.is_full:
            raise _busy(admission, "leave no_wait out to queue")
        if admission.takes_no_more:
            raise _busy(admission, "start it once some have ended")

    async def _check_boundary(self, planned: Planned) -> None:
        """After all that is asked for, which a host that has to be mended first would hide."""
        if planned.policy.confinement != "none":
            (await self._services.outlook.now()).check(needed_by(planned.policy))

    def _check_room(self) -> None:
        try:
            check_room(self._services)
        except RpcError:
            self._house.retention.wake()
            raise

    async def _put_on_record(self, planned: Planned) -> None:
        record, house = planned.record, self._house
        holder = house.holder(record.repository.key, record.task)
        if record.writes and holder is not None:
            raise _held(record, await house.record_of(holder))
        if (record.repository.key, record.task) in house.cleaning:
            raise _in_cleanup(record)
        with house.families.place(record), self._reserved(record):
            house.hold(record)
            try:
                planned, journal = await self._make(planned)
                view = await self._queue(planned.record, journal, planned.prompt)
            except durable.DiskError as error:
                house.release(record)
                self._services.storage.refused(error, "a run's record")
                self._services.storage.check("start")
                raise
            except BaseException:
                house.release(record)
                raise
            self._begin(planned, journal, view)

    @contextmanager
    def _reserved(self, record: Record) -> Iterator[None]:
        """A place for a child before it is on record: its parent holds one while it waits.

        Were it to queue, parents could hold all the places that their children wait for.
        """
        admission = self._services.admission
        if not record.ancestors:
            yield
            return
        if admission.active >= admission.limit:
            raise _busy(admission, "start it once some have ended")
        admission.take(record.run)
        try:
            yield
        except BaseException:
            admission.leave(record.run)
            raise

    async def _make(self, planned: Planned) -> tuple[Planned, Journal]:
        """Inputs and record of a run, all of it or nothing."""
        record = planned.record
        await trio.to_thread.run_sync(self._mark, record)
        try:
            taken = await inputs.take(record, planned.inputs, self._services)
            planned = evolve(planned, record=taken)
            return planned, await trio.to_thread.run_sync(self._write_intent, planned)
        except BaseException:
            await trio.to_thread.run_sync(self._take_back, record)
            raise

    def _mark(self, record: Record) -> None:
        """Whatever is made of the run from here on is found again, or removed. Blocks."""
        _clear_sentinel(record)
        durable.mark(self._services.state.live / record.run)
        reach("start.marked")

    def _write_intent(self, planned: Planned) -> Journal:
        """A run's record is durable before its worktree, branch or process exists. Blocks."""
        record, state = planned.record, self._services.state
        if record.on_event is not None:
            # From its record on a run is carried on by whoever finds it.
            feeds.owe(state, record.run)
        RunDirectory(state.run(record.run)).create(record.as_json(), planned.prompt)
        reach("start.recorded")
        self._house.tasks.add_run(planned.task, record.run)
        reach("start.in_task")
        return self._open_journal(record, planned.environment)

    async def _queue(self, record: Record, journal: Journal, prompt: str) -> View:
        """The first line of a run's journal, from which on it is a run."""
        view = View()
        members = {"policy_digest": record.policy_digest, "file": seal_of(encode_prompt(prompt))}
        queued = Entry(v.RUN_QUEUED, members)
        try:
            for event in await journal.append([queued], {}):
                view.apply(event)
            reach("start.queued")
        except BaseException:
            journal.close()
            await trio.to_thread.run_sync(self._take_back, record)
            raise
        return view

    def _take_back(self, record: Record) -> None:
        """Refused, it must not begin one day: without its mark nobody carries it on. Blocks."""
        # What a newer daemon found is its own to carry on.
        ownership.check()
        state = self._services.state
        durable.remove(state.feeds / record.run)
        inputs.discard(state, record.run)
        durable.remove(state.live / record.run)


def _clear_sentinel(record: Record) -> None:
    """From here on what lies there is this run's. Blocks. Raises RpcError."""
    if record.sentinel_file is None:
        return
    try:
        sentinel.clear(record.sentinel_file)
    except sentinel.SentinelError as error:
        text = f"cannot start: the sentinel file {record.sentinel_file} {error}"
        raise RpcError("InvalidParams", text) from error


def _busy(admission: Admission, hint: str) -> RpcError:
    waiting = f", {admission.queued} wait" if admission.queued else ""
    return RpcError(
        "Busy",
        f"cannot start: {admission.active} of {admission.limit} runs are active{waiting}",
        hint=hint,
        retryable=True,
        retry_after_s=5,
        detail={
            "source": "local",
            "limit": admission.limit,
            "active": admission.active,
            "queued": admission.queued,
        },
    )


def _held(record: Record, holder: Record) -> RpcError:
    # One that is kept ends when it is closed, however long somebody waits.
    ends = "close" if holder.keep else "wait"
    return RpcError(
        "Conflict",
        f"cannot start: run {holder.handle} works in task {record.task}",
        hint="wait for it, close or cancel it, name another task with -t, or read beside it:"
        " --profile review",
        detail={"holder": holder.run},
        next=[["coachman", ends, holder.handle], ["coachman", "cancel", holder.handle]],
    )


def _in_cleanup(record: Record) -> RpcError:
    return RpcError(
        "Busy",
        f"cannot start: task {record.task} is being cleaned up",
        hint="start again when that is done",
        retryable=True,
        retry_after_s=2,
    )
