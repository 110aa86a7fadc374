"""What a run leaves besides changes: its files for whoever asked, taken from the agent."""

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import trio
from attrs import field, frozen

from coachman_sandbox.layout import OUTPUT

from ... import durable
from ...repos.errors import RepoError
from ...repos.records import Artifact
from ..facts.places import places_of

if TYPE_CHECKING:
    from ..run import Run

log = structlog.get_logger("run")
MAX_NAMED = 20


@frozen
class Kept:
    """The files that a run left, archived; ``warnings`` say what of it is not."""

    artifacts: tuple[Artifact, ...] = ()
    left_out: Mapping[str, str] = field(factory=dict)
    warnings: tuple[str, ...] = ()


async def archive(run: "Run") -> Kept:
    """Take what the agent, which is gone, left in /output; the run's ``artifacts`` are all of it.

    May be done again after a crash. Where it cannot be done, the files stay where they are.
    """
    workers, target = run.services.workers, run.directory.artifacts
    source = places_of(run.fixed, run.services.state).output
    if not await trio.to_thread.run_sync(_is_filled, source, target):
        return Kept()
    try:
        await trio.to_thread.run_sync(durable.make_directory, target)
        found = await workers.archive(str(source), str(target))
        await workers.delete_tree(str(source))
    except RepoError as error:
        return Kept(warnings=(f"what it left is in {source}: {error.message}",))
    named = (
        f"left out of the artifacts: {path} ({why})"
        for path, why in islice(found.left_out.items(), MAX_NAMED)
    )
    return Kept(found.artifacts, found.left_out, tuple(named))


def missing(expected: Sequence[str], kept: Kept) -> str:
    """Which of the artifacts that a run has to leave are not there, in words; "" for none."""
    there = {artifact.path for artifact in kept.artifacts}
    folders = {path[:at] for path in there for at, sign in enumerate(path) if sign == "/"}
    gone = [path for path in expected if path not in there and path not in folders]
    named = ", ".join(_named(path, kept) for path in gone[:MAX_NAMED])
    return f"it left no {named} in {OUTPUT}" if gone else ""


def _named(path: str, kept: Kept) -> str:
    return f"{path} (but {kept.left_out[path]})" if path in kept.left_out else path


def _is_filled(source: Path, target: Path) -> bool:
    """Whether anything lies in either; an empty output goes, and nothing in it is touched."""
    try:
        source.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return True
    return target.is_dir() and bool(os.listdir(target))


async def clear_scratch(run: "Run") -> None:
    """Most runs leave nothing there, and rmdir needs no confined child to find out."""
    scratch = places_of(run.fixed, run.services.state).scratch
    try:
        await trio.Path(scratch).rmdir()
    except OSError:
        try:
            await run.services.workers.delete_tree(str(scratch))
        except RepoError as error:
            log.warning("scratch_kept", run=run.fixed.run, error=error.message)
