"""The shapes of what the daemon returns about what is kept: tasks, cleanups, the index."""

from typing import Literal, TypedDict

from .records import (
    Finding,
)


class Task(TypedDict):
    """A task and the runs that worked in it; ``holder`` is the run that does so now."""

    task: str
    repo: str
    common_dir: str
    toplevel: str
    worktree: str
    base: str
    created_at: int
    admin: str | None
    runs: list[str]
    holder: str | None


class TaskPage(TypedDict):
    """Tasks of one repository, or of all."""

    tasks: list[Task]


class CleanedRun(TypedDict):
    """An ended run that was chosen; ``log_bytes`` is what its raw logs took."""

    run: str
    handle: str
    outcome: str
    ended_at: int
    log_bytes: int


class CleanedTask(TypedDict):
    """What became of a task's worktree, its agents' homes and the raw logs of ``runs``.

    ``state`` is of worktree and homes: "removed", "kept" for the reason ``why``, "gone" since
    an earlier time, None where they were not asked about. ``commit`` holds what the worktree
    held. ``differs`` says what no run had recorded; the ref ``salvage`` keeps that. The files
    counted as ignored go for good.
    """

    task: str
    repo: str
    toplevel: str | None
    worktree: str | None
    state: Literal["removed", "kept", "gone"] | None
    why: str | None
    hint: str | None
    bytes: int
    worktree_bytes: int
    home_bytes: int
    log_bytes: int
    ignored_files: int
    ignored_bytes: int
    differs: list[str]
    commit: str | None
    salvage: str | None
    runs: list[CleanedRun]


class Cleanup(TypedDict):
    """What was removed, or with ``dry_run`` what would be, and how many ``bytes`` that gives back.

    ``findings`` belong to no record: nothing removes them by itself.
    """

    dry_run: bool
    bytes: int
    tasks: list[CleanedTask]
    truncated: bool
    findings: list[Finding]


class UnreadableRun(TypedDict):
    """A run with something that cannot be read."""

    run: str
    why: str


class Reindexed(TypedDict):
    """How many runs the index holds now, and those that it had to leave out in part or whole."""

    runs: int
    unreadable: list[UnreadableRun]
