"""The price of being there."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen
from figures import Figure, row
from row_get import until_heard
from world import Bench

IDLE_TARGET_MB = 60.0
RUN_TARGET_MB = 6.0
SETTLE_S = 1.5
IMPORTS = "import coachmand.__main__, sys; print('ready', flush=True); sys.stdin.read()"


@frozen
class Memory:
    """A process's memory in MB; where the kernel does not tell it to us, resident anonymous."""

    proportional: float
    private: float


def memory_of(pid: int) -> Memory:
    """Of a process that may have closed itself to its user, which only root sees through."""
    try:
        members = _members(f"/proc/{pid}/smaps_rollup")
    except PermissionError:
        anonymous = _members(f"/proc/{pid}/status")["RssAnon"]
        return Memory(anonymous, anonymous)
    return Memory(members["Pss"], members["Private_Clean"] + members["Private_Dirty"])


def _members(path: str) -> dict[str, float]:
    lines = (line.split() for line in Path(path).read_text().splitlines())
    return {line[0].rstrip(":"): int(line[1]) / 1000 for line in lines if line[-1] == "kB"}


@row("memory")
def measure(bench: Bench) -> Iterator[Figure]:
    """An idle daemon's memory against its imports alone; what each parked run adds."""
    bare = _imports_alone(bench)
    with bench.world() as world:
        daemon = world.start(64)
        world.wait(world.run("say hi"))
        time.sleep(SETTLE_S)
        assert daemon.process is not None
        idle = memory_of(daemon.process.pid)
        yield Figure(
            "daemon idle, after a first run",
            idle.proportional,
            "MB",
            "interpreter and imports",
            bare.proportional,
            f"≤ {IDLE_TARGET_MB:.0f} MB",
            idle.proportional <= IDLE_TARGET_MB,
            {"of that private": f"{idle.private:.1f} MB", "as": _kind()},
        )
        count = bench.scale(24, 8)
        runs = [world.run("sleep 600") for _ in range(count)]
        until_heard(world, runs, 9)
        time.sleep(SETTLE_S)
        parked = memory_of(daemon.process.pid)
        keepers = [memory_of(pid).private for pid in world.keepers()]
        in_daemon = (parked.private - idle.private) / count
        keeper = sum(keepers) / len(keepers)
        yield Figure(
            f"each of {count} parked runs, daemon and keeper",
            in_daemon + keeper,
            "MB",
            "bare interpreter, python -I -S",
            _bare_interpreter(bench),
            f"≤ {RUN_TARGET_MB:.0f} MB",
            in_daemon + keeper <= RUN_TARGET_MB,
            {"in the daemon": f"{in_daemon:.2f} MB", "keeper": f"{keeper:.2f} MB"},
        )


def _kind() -> str:
    return "proportional set size" if os.geteuid() == 0 else "resident anonymous"


def _imports_alone(bench: Bench) -> Memory:
    with bench.process("-I", "-c", IMPORTS) as process:
        return memory_of(process.pid)


def _bare_interpreter(bench: Bench) -> float:
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    with bench.process("-I", "-S", "-c", program) as process:
        return memory_of(process.pid).private
