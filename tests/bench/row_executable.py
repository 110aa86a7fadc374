"""What it costs to know an agent's program by its content."""

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from figures import Figure, row
from process_io import counted
from timing import command_s, medians, seconds
from world import Bench, World

SIZE_BYTES = 200_000_000
BYTES_TARGET_RATIO = 1.1
RUNS = 3
AGENT = "large"
CONFIGURATION = f"""
[agents.{AGENT}]
adapter = "opencode"
executable = "{{}}"
"""


@row("executable")
def measure(bench: Bench) -> Iterator[Figure]:
    """A program of 200 MB: the first start digests it, against `sha256sum`; later ones do not."""
    with bench.world() as world:
        program = _program(world.root / "bin" / "large")
        world.configuration = CONFIGURATION.format(program)
        daemon = world.start()
        assert daemon.process is not None
        first, again, other, summed = medians(
            bench.scale(7, 3),
            lambda: _first_s(world, program),
            lambda: _planned_s(world, AGENT),
            lambda: _planned_s(world, "demo"),
            lambda: command_s(["sha256sum", str(program)]),
        )
        yield _figure("first", first, "sha256sum", summed)
        yield _figure("next", again, "the same of a small one", other)
        _touch(program)
        before = counted(daemon.process.pid)
        with ThreadPoolExecutor(RUNS) as pool:
            list(pool.map(lambda _: _run(world), range(RUNS)))
        moved = counted(daemon.process.pid) - before
        if moved.read is not None:
            yield Figure(
                f"bytes read for {RUNS} runs of it, begun at once",
                moved.read / 1e6,
                "MB",
                "in the program",
                program.stat().st_size / 1e6,
                f"≤ {BYTES_TARGET_RATIO}×",
                moved.read <= program.stat().st_size * BYTES_TARGET_RATIO,
            )


def _figure(which: str, value_s: float, beside: str, beside_s: float) -> Figure:
    what = f"the plan of a run with a program of 200 MB, {which}"
    return Figure(what, value_s * 1000, "ms", beside, beside_s * 1000)


def _program(path: Path) -> Path:
    """A program that starts and exits at once, whatever it is told; most of it is never read."""
    path.parent.mkdir()
    shutil.copy(os.path.realpath("/bin/false"), path)
    block = os.urandom(1 << 20)
    with path.open("ab") as file:
        while file.tell() < SIZE_BYTES:
            file.write(block)
    return path


def _touch(path: Path) -> None:
    """Make it another file, as far as anybody can know without reading it."""
    path.touch()


def _planned_s(world: World, agent: str) -> float:
    members = {"agent": agent, "prompt": "hi", "dir": str(world.repo), "dry_run": True}
    with world.connect() as connection:
        return seconds(lambda: connection.call("run.start", **members))


def _first_s(world: World, program: Path) -> float:
    _touch(program)
    return _planned_s(world, AGENT)


def _run(world: World) -> None:
    world.wait(world.run("hi", agent=AGENT, retries=0), outcome="failed")
