"""Over a tree of processes: all below one are stopped, so that none forks more, and killed."""

from __future__ import annotations

import contextlib
import os
import select
import signal

# Of a tree that grows faster than it is walked, the next pass takes more.
MOST_IN_A_PASS = 400


def stop_and_kill(root: int, root_fd: int = -1) -> int:
    """Kill what descends from ``root``, as far as one pass finds it; how many that were.

    ``root_fd`` is a descriptor of it, where it may end meanwhile.

    By descriptors: a number may belong to another process by the time it is used. What ended
    meanwhile has left its children to ``root``, the keeper.
    """
    held: dict[int, int] = {}
    pending = [root]
    try:
        while pending and len(held) < MOST_IN_A_PASS:
            parent = pending.pop()
            for child in children(parent):
                if child in held or len(held) >= MOST_IN_A_PASS:
                    continue
                pidfd = _held(child, parent, held.get(parent, root_fd))
                if pidfd >= 0:
                    held[child] = pidfd
                    _signal(pidfd, signal.SIGSTOP)
                    pending.append(child)
        for pidfd in held.values():
            _signal(pidfd, signal.SIGKILL)
    finally:
        for pidfd in held.values():
            os.close(pidfd)
    return len(held)


def children(pid: int) -> list[int]:
    """The children of a process, of all its threads; none once it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError),
                open(f"/proc/{pid}/task/{thread}/children", "rb") as file,
            ):
                found += map(int, file.read().split())
    return found


def _held(pid: int, parent: int, parent_fd: int) -> int:
    """A descriptor of a process that is still the parent's child; -1 where it is not."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return -1
    # Only while the parent lives does its number, in the child's status, mean the parent.
    if _parent_of(pid) == parent and not _is_over(parent_fd):
        return pidfd
    os.close(pidfd)
    return -1


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return -1


def _is_over(pidfd: int) -> bool:
    return pidfd >= 0 and bool(select.select([pidfd], [], [], 0)[0])


def _signal(pidfd: int, number: int) -> None:
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(pidfd, number)
