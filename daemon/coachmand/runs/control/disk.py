"""What a run's directories grow by: looked at, and the run ended once that is too much."""

import os
from typing import TYPE_CHECKING

import structlog
import trio

from ...repos.errors import RepoError
from ..facts.places import places_of
from . import inbox

if TYPE_CHECKING:
    from ..run import Run

log = structlog.get_logger("disk")
# What is there before is measured once; a run that is over by then is spared that.
FIRST_LOOK_S = 3.0
LOOK_EVERY_S = 5.0
# Measuring a large tree takes long: so much of the limit has to have gone from the disk first.
WORTH_A_LOOK = 8


class DiskWatch:
    """Tells ``run`` once its directories grew by more than its policy allows.

    After a restart of the daemon it counts anew.
    """

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._begun = False

    def __repr__(self) -> str:
        return f"<DiskWatch of {self._run.fixed.handle}>"

    def begin(self) -> None:
        """Look from now on, until the run is over."""
        walls, configured = self._run.fixed.walls, self._run.services.config.storage.disk_limit
        limit = walls.caps.get("disk_bytes", configured)
        # What it writes elsewhere would not be counted: a limit here would mean nothing.
        if not self._begun and not walls.native:
            self._begun = True
            self._run.spawn(self._watch, limit)

    async def _watch(self, limit: int) -> None:
        await trio.sleep(FIRST_LOOK_S)
        try:
            before, free = await self._taken(), await self._free()
            while True:
                await trio.sleep(LOOK_EVERY_S)
                now = await self._free()
                gone = max(was - left for was, left in zip(free, now, strict=True))
                if gone < limit // WORTH_A_LOOK:
                    continue
                free, grown = now, await self._taken() - before
                if grown > limit:
                    self._run.post(inbox.DiskTaken(grown, limit))
                    return
        except (RepoError, OSError) as error:
            log.error("disk_unwatched", run=self._run.fixed.run, error=str(error))

    def _directories(self) -> tuple[str, ...]:
        fixed = self._run.fixed
        places = places_of(fixed, self._run.services.state)
        worktree = (fixed.worktree,) if fixed.repository.is_there else ()
        return (*worktree, *map(str, (places.homes, *places.own)))

    async def _taken(self) -> int:
        workers, key = self._run.services.workers, self._run.fixed.repository.common_dir
        return sum([(await workers.measure(path, key=key)).bytes for path in self._directories()])

    async def _free(self) -> list[int]:
        return await trio.to_thread.run_sync(_free_bytes, self._directories()[:2])


def _free_bytes(paths: tuple[str, ...]) -> list[int]:
    facts = [os.statvfs(path) for path in paths]
    return [each.f_bavail * each.f_frsize for each in facts]
