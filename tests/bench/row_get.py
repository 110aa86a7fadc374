"""Whether one run is told about while others talk."""

import time
from collections.abc import Iterator

from figures import Figure, row
from timing import percentile, turns, until
from world import Bench, Connection, World, request

RUNS = 16
EVENTS_PER_S = 1000
TARGET_P99_MS = 25.0
CHUNKS = 3
# What the agent itself takes for a round is left out of its sleep.
ROUND_S = RUNS * CHUNKS / EVENTS_PER_S
SPENT_S = 0.002


@row("get")
def measure(bench: Bench) -> Iterator[Figure]:
    """`run.get` while 16 runs emit about 1,000 events/s in all, against an idle daemon."""
    measured_s = bench.scale(8, 2)
    with bench.world() as world:
        world.start(RUNS + 1)
        quiet = world.run("say hi\nsleep 600")
        with world.connect() as connection:
            line = request("run.get", run=quiet)
            idle = latencies(connection, line, measured_s)
            # Until all sixteen are started the first ones wait with their first word.
            seconds = measured_s + 15
            rounds = int(seconds / ROUND_S)
            prompt = f"chunks {CHUNKS}\nsleep {ROUND_S - SPENT_S}\n" * rounds
            runs = [world.run(prompt) for _ in range(RUNS)]
            until_heard(world, runs)
            before, begun = _events(world, runs), time.monotonic()
            busy = latencies(connection, line, measured_s)
            rate = (_events(world, runs) - before) / (time.monotonic() - begun)
    for percent in (50, 99):
        value = percentile(busy, percent) * 1000
        yield Figure(
            f"run.get p{percent}, {RUNS} runs at {rate:,.0f} events/s",
            value,
            "ms",
            "idle",
            percentile(idle, percent) * 1000,
            f"≤ {TARGET_P99_MS:.0f} ms" if percent == 99 else "",
            value <= TARGET_P99_MS if percent == 99 else None,
        )


def latencies(connection: Connection, line: bytes, limit_s: float) -> list[float]:
    """What each of so many seconds of calls took."""
    found = []
    for _ in turns(limit_s):
        found.append(connection.round_trip(line))
        time.sleep(0.002)
    return found


def until_heard(world: World, runs: list[str], seq: int = 12) -> None:
    """Wait until every journal has come to ``seq``, by which its agent has said something."""
    with world.connect() as connection:
        for run in runs:
            until(lambda run=run: connection.call("run.get", run=run)["last_seq"] >= seq)


def _events(world: World, runs: list[str]) -> int:
    with world.connect() as connection:
        return sum(connection.call("run.get", run=run)["last_seq"] for run in runs)
