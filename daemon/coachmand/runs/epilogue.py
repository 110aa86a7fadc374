"""What runs in the same sandbox after the agent: a usage export, in a keeper of its own."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import define, evolve, field

from .. import durable, keeper
from . import inbox
from .clock import boottime_s
from .keepers import KeeperError, keeper_alive, launch, read_exit
from .link import KeeperLink
from .prepare import Launch, launch_record

if TYPE_CHECKING:
    from .run import Run

log = structlog.get_logger("run")
MARGIN_S = 5.0


@define
class Watcher:
    """Waits for one thing: that the keeper has nothing more to say."""

    over: trio.Event = field(factory=trio.Event)

    def output(self, stdout: int, stderr: int) -> None:
        pass

    def storage(self, error: str | None, number: int | None) -> None:
        pass

    def exited(self, record: dict[str, Any]) -> None:
        self.over.set()

    def gone(self, evicted: bool) -> None:
        self.over.set()


async def run_epilogue(run: "Run", planned: Launch, session: str) -> None:
    """Run the plan's epilogue, or find the one that runs already, and post how it went.

    It is no part of the verdict: where it fails, the run goes without what it tells.
    """
    assert run.attempt is not None
    path = run.directory.epilogue(run.attempt.number)
    worked = False
    try:
        if not await trio.Path(path).exists():
            await _start(run, planned, session, path)
        with trio.move_on_after(planned.epilogue_limit_s + MARGIN_S):
            worked = await _ends_well(run, path)
    except (KeeperError, OSError) as error:
        log.warning("epilogue_failed", run=run.fixed.run, error=str(error))
    run.post(inbox.EpilogueDone(worked))


async def _start(run: "Run", planned: Launch, session: str, path: Path) -> None:
    await trio.to_thread.run_sync(durable.make_directory, path)
    words = tuple(session if word == "{session}" else word for word in planned.epilogue)
    deadline_s = boottime_s() + planned.epilogue_limit_s
    record = launch_record(evolve(planned, command=words), run.services, path, deadline_s)
    lock = os.path.join(path, keeper.LOCK_NAME)
    # Its logs are masked with the agent's: its keeper has nothing to keep for that.
    await launch({**record, "stdin": "null", "mask": []}, lock, run.services.python)


async def _ends_well(run: "Run", path: os.PathLike[str]) -> bool:
    if keeper_alive(path):
        watcher = Watcher()
        link = await KeeperLink.attach(path, run.services.generation, watcher, run.nursery)
        await watcher.over.wait()
        link.close()
    return (read_exit(path) or {}).get("exit_code") == 0
