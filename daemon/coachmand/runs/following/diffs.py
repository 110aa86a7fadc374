"""What a run or a task changed: which commits to compare, and patches by the page."""

import base64

import trio
from attrs import frozen

from ...evidence.rundir import RunDirectory
from ..supervisor import Supervisor


@frozen
class Page:
    """A part of a patch: as text, or base64 where it is not UTF-8."""

    text: str | None
    encoded: str | None
    more: bool
    next_offset: int | None


def page(patch: bytes, offset: int, limit: int) -> Page:
    """At most ``limit`` bytes of ``patch`` from ``offset``, cut behind a line if it can be."""
    part = patch[offset : offset + max(1, limit)]
    if offset + len(part) < len(patch):
        part = part[: part.rfind(b"\n") + 1] or part
    end = offset + len(part)
    more = end < len(patch)
    try:
        return Page(part.decode(), None, more, end if more else None)
    except UnicodeDecodeError:
        return Page(None, base64.b64encode(part).decode(), more, end if more else None)


async def compared(supervisor: Supervisor, run: str, *, whole_task: bool) -> tuple[str, str]:
    """The commits to compare: a run's start and end, or its task's base and newest state.

    Raises RepoError where the tree of a living run cannot be recorded.
    """
    base = (await supervisor.record_of(run)).repository.base
    living = supervisor.runs.get(run)
    if living is not None and living.view.attempt:
        start, end = await living.snapshot_now()
    else:
        directory = RunDirectory(supervisor.services.state.run(run))
        result = await trio.to_thread.run_sync(directory.read_result)
        commits = (result or {}).get("commits") or {}
        start, end = commits.get("from") or base, commits.get("to") or base
    return (base if whole_task else start), end
