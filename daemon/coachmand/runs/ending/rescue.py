"""What becomes of a run whose task failed: taken up again from its log, or ended truthfully."""

from typing import TYPE_CHECKING, TypeVar

import structlog
import trio

from ... import durable
from ...ownership import FencedError
from ..keepers.starting import KeeperError, end_keeper

if TYPE_CHECKING:
    from ..run import Run
    from ..supervisor import Supervisor

log = structlog.get_logger("supervisor")
E = TypeVar("E", bound=BaseException)
INTERNAL_ERROR, STORAGE_FAILED = "internal_error", "storage_failed"


class Rescue:
    """Picks runs up that fell. Each is a fault boundary: the others go on."""

    def __init__(self, supervisor: "Supervisor") -> None:
        self._supervisor = supervisor

    def __repr__(self) -> str:
        return f"<Rescue for {self._supervisor!r}>"

    async def fell(self, run: "Run", error: Exception) -> None:
        """The run's task raised ``error``."""
        services = self._supervisor.services
        if _find(error, FencedError) is not None:
            # Another daemon has the run: it is let go of without a word.
            await self._supervisor.close(run)
            services.storage.on_fenced()
        elif (refused := _find(error, durable.DiskError)) is not None:
            services.storage.degrade(refused, f"the journal of {run.fixed.handle}")
            await self._lose(run)
        else:
            log.error("run_failed", run=run.fixed.run, again=not run.broken, exc_info=error)
            await self._again(run)

    async def _again(self, run: "Run") -> None:
        """Something unexpected: take the run up once more from its log, then end it."""
        await self._supervisor.close(run)
        if run.broken:
            await self._give_up(run)
            return
        await self._carry_on(run, INTERNAL_ERROR if run.taken_up_again else None)

    async def _lose(self, run: "Run") -> None:
        """Nobody knows what the disk has of the run: its agent is ended, and it as lost.

        Its journal is written anew, for a file whose sync failed once is not to be trusted.
        Where that is refused as well, a later daemon finds the run, and its agent gone.
        """
        supervisor = self._supervisor
        await supervisor.close(run)
        if run.broken or run.view.state == "ended":
            await self._give_up(run)
            return
        await self._end_agent(run)
        try:
            await trio.to_thread.run_sync(durable.copy, run.directory.journal)
        except OSError as error:
            log.error("journal_refused", run=run.fixed.run, error=str(error))
            await self._give_up(run)
            return
        await self._carry_on(run, STORAGE_FAILED)

    async def _carry_on(self, run: "Run", broken: str | None) -> None:
        supervisor = self._supervisor
        try:
            found = await trio.to_thread.run_sync(supervisor.read, run.fixed.run, broken)
        except Exception as error:
            # Kept as it is for a person to look at; the others go on.
            log.error("run_unreadable", run=run.fixed.run, exc_info=error)
            found = None
        if found is None:
            await self._give_up(run)
            return
        found.environment, found.lent = run.environment, run.lent
        found.taken_up_again = True
        supervisor.carry(found)

    async def _give_up(self, run: "Run") -> None:
        await self._end_agent(run)
        await self._supervisor.let_go(run)

    async def _end_agent(self, run: "Run") -> None:
        """Nobody carries the run any more: its agent must not go on unwatched."""
        path = run.directory.attempt(run.view.attempt)
        try:
            await trio.to_thread.run_sync(end_keeper, path)
        except (KeeperError, OSError) as error:
            log.error("orphans_live", run=run.fixed.run, error=str(error))
            if isinstance(error, KeeperError):
                self._supervisor.services.survivors.note(str(path), error)


def _find(error: BaseException, kind: type[E]) -> E | None:
    """The one of that kind in what a run raised, if there is one."""
    if isinstance(error, BaseExceptionGroup):
        return next((e for inner in error.exceptions if (e := _find(inner, kind))), None)
    return error if isinstance(error, kind) else None
