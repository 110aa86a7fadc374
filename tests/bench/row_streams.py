"""Fifty followers of sixteen runs as one stream, five of which read nothing."""

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from figures import Figure, row
from row_get import CHUNKS, ROUND_S, RUNS, SPENT_S, TARGET_P99_MS, latencies, until_heard
from row_memory import memory_of
from timing import percentile
from world import Bench, World, request

if TYPE_CHECKING:
    import subprocess

FOLLOWERS, STOPPED = 50, 5
LABEL = "streams"
GROWN_MB = 64.0


@row("streams")
def measure(bench: Bench) -> Iterator[Figure]:
    """`run.get` while 50 follow 16 runs of 1,000 events/s and 5 stand still; none may lack any."""
    measured_s = bench.scale(8, 2)
    with bench.world() as world:
        world.start(RUNS + 1)
        quiet = world.run("say hi\nsleep 600")
        line = request("run.get", run=quiet)
        with world.connect() as connection:
            idle = latencies(connection, line, measured_s)
            before = _private_mb(world)
            arguments = (world.daemon.socket, LABEL, FOLLOWERS, STOPPED, RUNS)
            with bench.helper("stream_readers.py", *map(str, arguments)) as readers:
                rounds = int((measured_s + 15) / ROUND_S)
                prompt = f"chunks {CHUNKS}\nsleep {ROUND_S - SPENT_S}\n" * rounds
                runs = [world.run(prompt, labels={"of": LABEL}) for _ in range(RUNS)]
                until_heard(world, runs)
                begun, seen = time.monotonic(), _events(world, runs)
                busy = latencies(connection, line, measured_s)
                rate = (_events(world, runs) - seen) / (time.monotonic() - begun)
                grown = _private_mb(world) - before
                world.wait(*runs)
                ended = time.monotonic()
                _told(readers)
                lag_s = time.monotonic() - ended
                told = _told(readers)
    if not told["same"]:
        raise RuntimeError("the followers were sent different streams")
    delivered = rate * (FOLLOWERS - STOPPED)
    for percent in (50, 99):
        value = percentile(busy, percent) * 1000
        yield Figure(
            f"run.get p{percent}, {FOLLOWERS} followers of {rate:,.0f} events/s, {STOPPED} stopped",
            value,
            "ms",
            "idle",
            percentile(idle, percent) * 1000,
            f"≤ {TARGET_P99_MS:.0f} ms" if percent == 99 else "",
            value <= TARGET_P99_MS if percent == 99 else None,
            {"delivered": f"{delivered:,.0f} events/s", "checked": f"{told['events']:,} events"},
        )
    yield Figure(
        "the daemon's memory meanwhile",
        grown,
        "MB",
        "before",
        before,
        f"≤ {GROWN_MB:.0f} MB",
        grown <= GROWN_MB,
        {"the last follower was done": f"{lag_s:.2f} s after the last run"},
    )


def _told(readers: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert readers.stdout is not None
    line = readers.stdout.readline()
    if not line:
        raise RuntimeError("the followers failed")
    found: dict[str, Any] = json.loads(line)
    return found


def _events(world: World, runs: list[str]) -> int:
    with world.connect() as connection:
        return sum(connection.call("run.get", run=run)["last_seq"] for run in runs)


def _private_mb(world: World) -> float:
    assert world.daemon.process is not None
    return memory_of(world.daemon.process.pid).private
