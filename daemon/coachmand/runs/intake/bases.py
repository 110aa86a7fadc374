"""From which commit a child begins: its parent's tree as it is, or one that its work leads to."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...repos.errors import UNKNOWN_REVISION, RepoError

if TYPE_CHECKING:
    from ..run import Run

COMMIT_ID = re.compile(r"[0-9a-f]{7,40}")


async def base_below(parent: "Run", wanted: str | None, mine: Iterable[str]) -> str | None:
    """The commit for a child of ``parent``; None where ``wanted`` is not theirs. Raises RepoError.

    Without ``wanted`` it is the parent's tree at this moment, which agents cannot commit
    themselves. A name could be anybody's, so it is a commit's id, and what leads to it is the
    task's beginning or what was recorded of the runs that are ``mine``.
    """
    start, now = await parent.snapshot_now()
    if wanted is None:
        return now
    if not COMMIT_ID.fullmatch(wanted):
        return None
    workers, common = parent.services.workers, parent.fixed.repository.common_dir
    tips = [start, now, parent.fixed.repository.base]
    refs = [f"refs/coachman/run/{run}" for run in mine]
    try:
        commit = await workers.resolve(common, wanted)
        return commit if await workers.is_reachable(common, commit, tips, refs) else None
    except RepoError as error:
        if error.name == UNKNOWN_REVISION:
            return None
        raise
