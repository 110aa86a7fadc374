"""Named places where a test kills this process or lets the disk refuse.

COACHMAN_FAILPOINT arms them: `NAME:ACTION[@N[+]]`, several separated by commas. NAME may end in
`*`; ACTION strikes the N-th time (the first), with `+` each time from then on. Where
COACHMAN_FAILPOINT_LOG names a file, every strike is a line of it. Nothing is armed otherwise:
then a step costs a look at an empty list, and a call of the disk nothing at all.

Standard library only: the keeper has failpoints, too.
"""

from __future__ import annotations

import os
import signal
from errno import EIO, ENOSPC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Function = TypeVar("Function", bound=Callable[..., object])

VARIABLE = "COACHMAN_FAILPOINT"
LOG_VARIABLE = "COACHMAN_FAILPOINT_LOG"

# Every step of a run's life at which a process may die, in about the order of that life.
STEPS = (
    "start.claimed",
    "start.marked",
    "inputs.copied",
    "start.recorded",
    "start.in_task",
    "start.queued",
    "prepare.loaded",
    "prepare.placed",
    "attempt.intended",
    "attempt.launched",
    "attempt.attached",
    "attempt.active",
    "input.recorded",
    "input.told",
    "output.read",
    "output.recorded",
    "journal.written",
    "journal.synced",
    "checkpoint.written",
    "permission.shown",
    "permission.taken",
    "permission.hooked",
    "permission.answered",
    "prompt.written",
    "prompt.recorded",
    "interrupt.recorded",
    "turn.recording",
    "turn.recorded",
    "run.parked",
    "run.unparked",
    "orphan.found",
    "end.exited",
    "end.finished",
    "end.attempt_over",
    "end.recording",
    "end.tree_recorded",
    "end.masked",
    "end.recorded",
    "end.result_written",
    "end.indexed",
    "storage.reserve_given_up",
    "storage.room_again",
)
# The same of telling a run's end in a file.
SENTINEL_STEPS = (
    "sentinel.owed",
    "sentinel.written",
    "sentinel.ready",
    "sentinel.moved",
)
# The same of feeding a run's events to a program.
FEED_STEPS = ("feed.owed", "feed.given", "feed.recorded")
# The same of a task that is cleaned up.
CLEANUP_STEPS = (
    "cleanup.logs_deleted",
    "cleanup.salvaged",
    "cleanup.going",
    "cleanup.tree_deleted",
    "cleanup.entry_deleted",
    "cleanup.homes_deleted",
    "cleanup.gone",
    "cleanup.told",
)
# The same of what a run asks its parent.
QUESTION_STEPS = ("question.asked", "question.answered")
# The same of a login that is renewed.
LOGIN_STEPS = (
    "login.intended",
    "login.asked",
    "login.returned",
    "login.replaced",
    "login.cleared",
)
# The same of what a run is shown of its repository, in the process that makes it.
VIEW_STEPS = ("view.linked", "view.packed", "view.written", "view.placed")
# The same of a run's end that takes along what it had started.
FAMILY_STEPS = ("family.ending", "family.told")
# The same of a keeper.
KEEPER_STEPS = (
    "keeper.checked",
    "keeper.detached",
    "keeper.listening",
    "keeper.spawned",
    "keeper.gate",
    "keeper.ready",
    "keeper.attached",
    "keeper.taken",
    "keeper.stored",
    "keeper.empty",
    "keeper.synced",
    "keeper.exit_written",
    "keeper.leaving",
)
# The calls that may fail. Each is counted before it is made; a rename is a step behind it, too.
CALLS = (
    "disk.open",
    "disk.write",
    "disk.sync",
    "disk.rename",
    "disk.renamed",
    "disk.link",
    "disk.unlink",
    "disk.mkdir",
    "disk.truncate",
)
KEEPER_CALLS = (
    "keeper.disk.open",
    "keeper.disk.write",
    "keeper.disk.sync",
    "keeper.disk.rename",
    "keeper.disk.renamed",
)
NAMES = frozenset(
    (
        *STEPS,
        *SENTINEL_STEPS,
        *FEED_STEPS,
        *CLEANUP_STEPS,
        *QUESTION_STEPS,
        *LOGIN_STEPS,
        *VIEW_STEPS,
        *FAMILY_STEPS,
        *KEEPER_STEPS,
        *CALLS,
        *KEEPER_CALLS,
    )
)
ACTIONS = ("kill", "eio", "enospc", "short", "note")
ERRORS = {"eio": EIO, "enospc": ENOSPC, "short": ENOSPC}


class Armed:
    """One failpoint that is to strike."""

    def __init__(self, text: str) -> None:
        name, _, rest = text.partition(":")
        self.action, _, count = rest.partition("@")
        self.prefix, self.exact = name.removesuffix("*"), not name.endswith("*")
        if self.action not in ACTIONS or not any(self.matches(known) for known in NAMES):
            raise ValueError(f"cannot arm {text!r}: no such failpoint or action")
        self.again = count.endswith("+") or self.action == "note"
        self.left = int(count.removesuffix("+") or 1)

    def matches(self, name: str) -> bool:
        return name == self.prefix if self.exact else name.startswith(self.prefix)

    def is_due(self) -> bool:
        """Count one more time; whether to strike."""
        self.left -= 1
        return self.left == 0 or (self.left < 0 and self.again)


_ARMED: list[Armed] = []


def arm(points: str) -> None:
    """Arm what ``points`` lists, and nothing else. Calls are guarded where any was armed before."""
    _ARMED[:] = [Armed(text) for text in points.split(",") if text]


arm(os.environ.get(VARIABLE, ""))


def reach(name: str) -> None:
    """This step is reached. Raises OSError where the disk is to refuse here."""
    if _ARMED:
        _strike(name)


def guard(name: str, function: Function) -> Function:
    """``function``, one of the disk's; where armed, one that may fail."""
    if not _ARMED:
        return function

    def guarded(*args: object, **kwargs: object) -> object:
        if _strike(name) == "short":
            fd, data, *where = args
            # What only takes room has no half that anybody could see.
            if isinstance(data, (bytes, memoryview)):
                function(fd, data[: len(data) // 2], *where)
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return function(*args, **kwargs)

    return guarded  # type: ignore[return-value]


def _strike(name: str) -> str | None:
    action: str | None = None
    for armed in _ARMED:
        if armed.matches(name) and armed.is_due():
            action = armed.action
            _note(name, action)
            if action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
    if action == "short" and name.endswith(".write"):
        return action
    if action in ERRORS:
        raise OSError(ERRORS[action], os.strerror(ERRORS[action]))
    return None


def _note(name: str, action: str) -> None:
    if path := os.environ.get(LOG_VARIABLE):
        fd = _open_log(path)
        os.write(fd, f"{name} {action}\n".encode())
        os.close(fd)


def _open_log(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except PermissionError:
        # A confined process has what was open before it was.
        return os.dup(_held)


# Read by processes that are forked later; a keeper closes it, and is not confined.
_held = _open_log(os.environ[LOG_VARIABLE]) if os.environ.get(LOG_VARIABLE) else -1
