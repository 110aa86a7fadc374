"""The clock: whether it is kept, and whether it was ever further on than now."""

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import suppress

from coachman.diagnosis import failed, ok, warning
from coachman.results import Diagnosis

from ..runs.services import Means

AREA = "clock"
# Files' times and the clock's are read a moment apart, and machines that share a disk differ.
LEEWAY_S = 60.0
# So far behind, certificates are not valid yet.
HOPELESS_S = 86_400.0
TIME_ERROR = 5
# Of the state directory, what every daemon writes.
WITNESSES = ("generation", "daemon.json", "daemon.alive", "daemon.log", "index.db", "runs")
SYNCHRONISE = "timedatectl set-ntp true, or another service that keeps the time"


def examined(means: Means) -> Iterator[Diagnosis]:
    """Compare the clock with what is on disk, and ask the kernel who keeps it. Blocks."""
    yield judged(newest(means), time.time())
    yield _kept(is_synchronised(), means)


def judged(newest_s: tuple[float, str], now_s: float) -> Diagnosis:
    """Whether the clock is behind what was written already; pure."""
    at, path = newest_s
    behind_s = at - now_s
    if behind_s <= LEEWAY_S:
        return ok(AREA, "backwards", "no file of coachman's is from the future")
    text = f"the clock is {_spoken(behind_s)} behind {path}: it was set back, or is wrong"
    remedy = f"set the clock: {SYNCHRONISE}"
    judge = failed if behind_s > HOPELESS_S else warning
    return judge(AREA, "backwards", text, remedy, {"behind_s": round(behind_s), "path": path})


def newest(means: Means) -> tuple[float, str]:
    """The latest moment that something on disk is of, in seconds of the epoch, and what it is."""
    root = str(means.state.root)
    paths = [os.path.join(root, name) for name in WITNESSES] + [__file__]
    found = [(0.0, "nothing")]
    for path in paths:
        with suppress(OSError):
            found.append((os.stat(path).st_mtime, path))
    return max(found)


def is_synchronised() -> bool:
    """Whether the kernel is told that somebody keeps its clock."""
    # struct timex has 208 bytes on 64-bit machines; without modes adjtimex only fills it in.
    return int(ctypes.CDLL(None).adjtimex((ctypes.c_long * 64)())) != TIME_ERROR


def _kept(synchronised: bool, means: Means) -> Diagnosis:
    if synchronised:
        return ok(AREA, "synchronised", "the clock is synchronised")
    remedy = SYNCHRONISE
    if means.boundary.machine.wsl:
        remedy = "in Windows: wsl --shutdown, after which it is right again"
    return warning(AREA, "synchronised", "nobody keeps the clock (unsynchronised)", remedy)


def _spoken(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
