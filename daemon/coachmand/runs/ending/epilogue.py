"""What runs in the same sandbox after the agent: a usage export, in a keeper of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
import trio
from attrs import evolve

from ..attempts import beside
from ..control import inbox
from ..facts.clock import boottime_s
from ..keepers.starting import KeeperError
from ..preparing.prepare import Launch

if TYPE_CHECKING:
    from ..run import Run

log = structlog.get_logger("run")
MARGIN_S = 5.0


async def run_epilogue(run: "Run", planned: Launch, session: str) -> None:
    """Run the plan's epilogue, or find the one that runs already, and post how it went.

    It is no part of the verdict: where it fails, the run goes without what it tells.
    """
    assert run.attempt is not None
    path = run.directory.epilogue(run.attempt.number)
    try:
        if not await trio.Path(path).exists():
            await _start(run, planned, session, path)
        error = await _until_over(run, path, planned.epilogue_limit_s)
    except (KeeperError, OSError) as failure:
        error = str(failure)
    if error is not None:
        log.warning("epilogue_failed", run=run.fixed.run, error=error)
    run.post(inbox.EpilogueDone(error))


async def _start(run: "Run", planned: Launch, session: str, path: Path) -> None:
    words = tuple(session if word == "{session}" else word for word in planned.epilogue)
    due_s = boottime_s() + planned.epilogue_limit_s
    await beside.start(run.services, evolve(planned, command=words), path, due_s)


async def _until_over(run: "Run", path: Path, limit_s: float) -> str | None:
    """What is wrong with its end; None where it ended well."""
    with trio.move_on_after(limit_s + MARGIN_S):
        return _wrong(await beside.until_over(run, path), limit_s)
    return _too_long(limit_s)


def _wrong(exit: dict[str, Any] | None, limit_s: float) -> str | None:
    if exit is None:
        return "what reads it was killed"
    if exit.get("ended_by") == "deadline":
        return _too_long(limit_s)
    if exit.get("exit_code") == 0:
        return None
    if exit.get("exit_code") is None:
        return f"what reads it was ended by signal {exit.get('signal')}"
    return f"what reads it ended with status {exit['exit_code']}"


def _too_long(limit_s: float) -> str:
    return f"that took longer than {limit_s:.0f} s"
