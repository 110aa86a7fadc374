"""What one sandbox may take of the machine: set where the kernel allows, else looked at."""

from __future__ import annotations

import os
import resource

from .files import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .loop import Loop
    from .record import Launch

LOOK_EVERY_S = 2.0
CGROUPS = b"/sys/fs/cgroup"
# The keeper and bubblewrap's two processes, which are in the same cgroup.
OWN_TASKS = 3
PAGE_BYTES = resource.getpagesize()


def impose(launch: Launch, bwrap: int, init: int) -> dict[str, bool]:
    """Set what can be set for all that the init will start; whether each is the kernel's now.

    The number of tasks counts per user namespace, hence per sandbox, once it is set for a
    process inside. The kernel exempts root from it. A scope that systemd made for this
    keeper, and any other cgroup, holds memory and tasks whoever it is.
    """
    held = {}
    if launch.memory_limit_bytes is not None:
        held["memory"] = _cgroup_holds(b"memory.max", launch.memory_limit_bytes)
    if launch.tasks_limit is not None:
        here = _limit_tasks(init, launch.tasks_limit) and os.getuid() != 0
        held["tasks"] = here or _cgroup_holds(b"pids.max", launch.tasks_limit + OWN_TASKS)
    if launch.oom_score_adj is not None:
        held["oom_score"] = all(_offer(pid, launch.oom_score_adj) for pid in (init, bwrap))
    return held


def _cgroup_holds(name: bytes, limit: int) -> bool:
    """Whether the cgroup that we are in, of version 2, is bounded by no more than that."""
    try:
        with open("/proc/self/cgroup", "rb") as file:
            ours = next(line[3:].strip() for line in file if line.startswith(b"0::"))
        with open(b"%s%s/%s" % (CGROUPS, ours, name), "rb") as file:
            return int(file.read()) <= limit
    except (OSError, StopIteration, ValueError):
        # No such cgroup or controller; "max" is no bound.
        return False


def _limit_tasks(init: int, number: int) -> bool:
    try:
        resource.prlimit(init, resource.RLIMIT_NPROC, (number, number))
    except (OSError, ValueError) as error:
        log(f"cannot limit the number of tasks: {error}")
        return False
    return True


def _offer(pid: int, score: int) -> bool:
    """Have the kernel end these processes rather than others when memory runs out."""
    try:
        with open(f"/proc/{pid}/oom_score_adj", "wb") as file:
            file.write(b"%d" % score)
    except OSError as error:
        log(f"cannot set the OOM score: {error}")
        return False
    return True


class Watch:
    """Ends a sandbox that took more than its share; what a cgroup holds never comes so far."""

    def __init__(
        self, loop: Loop, launch: Launch, init: Callable[[], int | None], end: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._memory_bytes = launch.memory_limit_bytes
        self._tasks = launch.tasks_limit
        self._init = init
        self._end = end
        if self._memory_bytes is not None or self._tasks is not None:
            loop.after(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        init = self._init()
        if init is not None:
            pids, tasks = census(init)
            if self._tasks is not None and tasks > self._tasks:
                self._end("task_limit")
            elif self._memory_bytes is not None and self._is_over(pids, self._memory_bytes):
                self._end("memory_limit")
        self._loop.after(LOOK_EVERY_S, self._look)

    @staticmethod
    def _is_over(pids: list[int], limit: int) -> bool:
        # What is resident counts shared pages more than once; to divide them costs more.
        return sum(map(resident_bytes, pids)) > limit < sum(map(own_bytes, pids))


def census(init: int) -> tuple[list[int], int]:
    """The processes of a namespace, by its init, and how many threads they have in all."""
    pids, tasks, pending = [], 0, [init]
    while pending:
        pid = pending.pop()
        threads = _threads(pid)
        if threads:
            pids.append(pid)
            tasks += len(threads)
            pending += [child for thread in threads for child in _children(pid, thread)]
    return pids, tasks


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _children(pid: int, thread: int) -> Iterator[int]:
    try:
        with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            return map(int, file.read().split())
    except OSError:
        return iter(())


def resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def own_bytes(pid: int) -> int:
    """With the process's share of what it has in common with others."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            found = next((line for line in file if line.startswith(b"Pss:")), None)
    except OSError:
        found = None
    return int(found.split()[1]) * 1024 if found else resident_bytes(pid)
