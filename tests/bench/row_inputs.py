"""What it costs to hand files to a run: one copy, read once and written once."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from figures import Figure, row
from process_io import Counted, counted
from timing import command_s, medians
from world import Bench, World

LARGE_BYTES = 128 << 20
SMALL_BYTES = 128 << 10
SMALL_COUNT = 1024
TREE_BYTES = LARGE_BYTES + SMALL_BYTES * SMALL_COUNT
BYTES_TARGET_RATIO = 1.05


@row("inputs")
def measure(bench: Bench) -> Iterator[Figure]:
    """256 MiB of inputs: `run.start` until it answers, against `cp -r` of the same tree."""
    with bench.world() as world:
        daemon = world.start()
        source = _tree(world.root / "source")
        assert daemon.process is not None
        pid, moved, copied = daemon.process.pid, [], []

        def handed() -> float:
            before = counted(pid)
            taken = _start_s(world, source)
            moved.append(counted(pid) - before)
            return taken

        def by_hand() -> float:
            copied_s, synced_s = _copy_s(source, world.root / "copied")
            copied.append(copied_s)
            return copied_s + synced_s

        handed_s, synced_s = medians(bench.scale(3, 1), handed, by_hand)
        for beside, beside_s in (
            ("cp -r and sync of each file", synced_s),
            ("cp -r", median(copied[1:])),
        ):
            what = "256 MiB of inputs, run.start answered"
            yield Figure(what, handed_s * 1000, "ms", beside, beside_s * 1000)
        yield from _moved(moved[-1])


def _moved(moved: Counted) -> Iterator[Figure]:
    for what, value in (("written", moved.written), ("read", moved.read)):
        if value is not None:
            yield Figure(
                f"bytes {what} for it, to the run's end",
                value / 1e6,
                "MB",
                "in the tree",
                TREE_BYTES / 1e6,
                f"≤ {BYTES_TARGET_RATIO}×",
                value <= TREE_BYTES * BYTES_TARGET_RATIO,
            )


def _tree(path: Path) -> Path:
    """One large file and many small ones, of bytes that no file system stores as none."""
    (path / "small").mkdir(parents=True)
    block = os.urandom(1 << 20)
    with (path / "large").open("wb") as file:
        for _ in range(LARGE_BYTES // len(block)):
            file.write(block)
    for number in range(SMALL_COUNT):
        (path / "small" / str(number)).write_bytes(block[:SMALL_BYTES])
    os.sync()
    return path


def _start_s(world: World, source: Path) -> float:
    """How long `run.start` takes to answer; the run has ended and its copy is gone."""
    begun = time.perf_counter()
    run = world.run("say hi", inputs=[{"path": str(source)}])
    taken = time.perf_counter() - begun
    world.wait(run)
    shutil.rmtree(world.daemon.state / "runs" / run / "inputs")
    return taken


def _copy_s(source: Path, target: Path) -> tuple[float, float]:
    """How long a copy by hand takes, and then until it is on the disk, as coachman's is."""
    copied_s = command_s(["cp", "-r", str(source), str(target)])
    synced_s = command_s(["sync", *map(str, target.rglob("*"))])
    shutil.rmtree(target)
    return copied_s, synced_s
