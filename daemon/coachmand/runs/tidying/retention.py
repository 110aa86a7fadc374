"""Cleaning up by itself: at start, every hour, and when there is no room for a run."""

from collections.abc import Collection

import structlog
import trio

from ..preparing.shown import forget_views
from ..services import Services
from ..tasks import TaskStore
from .cleanup import Cleanup, Wanted
from .findings import Finding, find

log = structlog.get_logger("cleanup")
EVERY_S = 3600.0
# Somebody who starts runs in vain must not make the daemon look through everything each time.
NOT_SOONER_S = 60.0


class Retention:
    """``findings`` are what the last look found that belongs to no record."""

    def __init__(self, services: Services, tasks: TaskStore, cleanup: Cleanup) -> None:
        self.findings: list[Finding] = []
        self._services = services
        self._tasks = tasks
        self._cleanup = cleanup
        self._wanted = trio.Event()

    def __repr__(self) -> str:
        return f"<Retention {len(self.findings)} findings>"

    def wake(self) -> None:
        """There is no room: look now."""
        self._wanted.set()

    async def keep(self, living: Collection[str]) -> None:
        """Clean up for ever. What fails is logged and tried again the next time."""
        while True:
            try:
                await self.look(living)
            except Exception as error:
                log.error("cleanup_failed", exc_info=error)
            self._wanted = trio.Event()
            with trio.move_on_after(EVERY_S):
                await trio.sleep(NOT_SOONER_S)
                await self._wanted.wait()

    async def look(self, living: Collection[str]) -> None:
        """Finish what was interrupted, and remove what is old enough and kept by a ref."""
        limits, run = self._services.config.retention, self._cleanup.run
        await self._cleanup.finish()
        await run(Wanted(older_than_s=limits.worktrees_s, logs=False, salvage=False))
        await run(Wanted(older_than_s=limits.raw_logs_s, worktrees=False, salvage=False))
        await forget_views(self._services)
        self.findings = await self.found(living)

    async def found(self, living: Collection[str]) -> list[Finding]:
        """What belongs to no record now."""
        state = self._services.state
        found = await trio.to_thread.run_sync(find, state, self._tasks, frozenset(living))
        # Runs that began meanwhile are somebody's after all.
        now = {str(state.run(run)) for run in living}
        return [finding for finding in found if finding.path not in now]
