"""Limits that the kernel holds inside a sandbox."""

import os
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from coachmand.keeper import caps
from sandbox_launch import Box

FORK = """
import errno, os, time
while not os.path.exists("/scratch/go"): time.sleep(0.01)
made = 0
try:
    while made < 200:
        if os.fork() == 0: time.sleep(600)
        made += 1
except OSError as error: print(errno.errorcode[error.errno])
print(made, flush=True)
"""
TASKS = 40


def test_an_ordinary_users_agent_cannot_fork_without_end(
    box: Box, eventually: Callable[..., object]
) -> None:
    """Beyond its tasks fork fails inside; the kernel exempts root, whom the keeper watches."""
    process = box.spawn("/usr/bin/python3", "-I", "-c", FORK)
    try:
        init, agent = _lineage(process.pid, eventually)
        held = _as_keeper(box, process.pid, init, agent)
        (box.root / "state/scratch/go").touch()
        said = process.communicate(timeout=60)[0].split()
    finally:
        process.kill()
        process.communicate()
    assert held is (box.host.uid != 0)
    if held:
        assert said[0] == "EAGAIN"
        assert int(said[1]) < TASKS
    else:
        assert said == ["200"]


def _as_keeper(box: Box, bwrap: int, init: int, agent: int) -> bool:
    """Impose the caps as whoever runs the sandbox; whether the kernel holds that of tasks."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = _impose(box, bwrap, init, agent)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Whoever it is may raise the score of its own processes.
    assert code in (2, 3)
    return code == 3


def _impose(box: Box, bwrap: int, init: int, agent: int) -> int:
    if box.uid is not None:
        os.setresgid(box.uid, box.uid, box.uid)
        os.setresuid(box.uid, box.uid, box.uid)
    record: Any = SimpleNamespace(memory_limit_bytes=None, tasks_limit=TASKS, oom_score_adj=500)
    held = caps.impose(record, bwrap, init)
    # In a run the agent is not there yet, and inherits it.
    resource.prlimit(agent, resource.RLIMIT_NPROC, (TASKS, TASKS))
    return held["tasks"] + 2 * held["oom_score"]


def _lineage(bwrap: int, eventually: Callable[..., object]) -> tuple[int, int]:
    """Init and agent, once they are there."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [bwrap]
        while children := _children(found[-1]):
            found.append(children[0])
        return len(found) == 3

    eventually(look)
    return found[1], found[2]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
