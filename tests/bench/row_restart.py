"""The daemon killed under live runs, and started again."""

import json
import re
import time
from collections.abc import Iterator, Sequence

from figures import Figure, row
from timing import seconds, until
from world import Bench, World, request

TARGET_S = 2.0
CHUNK = b'{"type":"agent.message_chunk"'
SEQ = re.compile(rb'"seq":(\d+),"ts"')
STREAM_LOOK_S = 0.25
STREAM_LIMIT_S = 200.0


@row("restart")
def measure(bench: Bench) -> Iterator[Figure]:
    """SIGKILL under 100 live runs with 20,000 frames each, against a start without any run."""
    runs, frames = bench.scale(100, 12), bench.scale(20_000, 20_000)
    with bench.world() as empty:
        empty.start()
        empty.daemon.kill()
        empty_s = seconds(empty.daemon.start)
    with bench.world() as world:
        world.start(runs + 1)
        started = [world.run(f"chunks {frames}\nsleep 600") for _ in range(runs)]
        streamed_s = seconds(lambda: _streamed(world, runs, frames))
        world.daemon.kill()
        begun = time.perf_counter()
        world.daemon.start()
        with world.connect() as connection:
            connection.round_trip(request("daemon.ping"))
            answered_s = time.perf_counter() - begun
        generation = int((world.daemon.state / "generation").read_text())
        until(lambda: _adopted(world, generation) == runs)
        adopted_s = time.perf_counter() - begun
        _streamed(world, runs, frames)
        _check(world, started, frames)
    detail = {"streaming them took": f"{streamed_s:.0f} s", "events lost": "none"}
    what = f"{runs} live runs, {frames:,} frames each, SIGKILL"
    yield Figure(f"{what}: first answer", answered_s, "s", "start without runs", empty_s)
    yield Figure(
        f"{what}: all adopted",
        adopted_s,
        "s",
        "start without runs",
        empty_s,
        f"≤ {TARGET_S:.0f} s",
        adopted_s <= TARGET_S,
        detail,
    )


def _streamed(world: World, runs: int, frames: int) -> None:
    """Wait until every journal holds every frame."""
    until(lambda: min(_heads(world, runs)) >= frames + 8, STREAM_LIMIT_S, STREAM_LOOK_S)


def _heads(world: World, runs: int) -> list[int]:
    with world.connect() as connection:
        found = connection.call("run.list", limit=runs)["runs"]
    return [run["last_seq"] for run in found] if len(found) == runs else [0]


def _adopted(world: World, generation: int) -> int:
    """How many keepers have heard of the new daemon."""
    found = 0
    for path in world.daemon.state.glob("runs/*/attempts/1/keeper.json"):
        found += json.loads(path.read_bytes()).get("generation") == generation
    return found


def _check(world: World, runs: Sequence[str], frames: int) -> None:
    """Every journal counts without a hole and holds every frame once."""
    expected = [b"%d" % number for number in range(1, frames + 1000)]
    for run in runs:
        content = (world.daemon.state / "runs" / run / "events.ndjson").read_bytes()
        chunks = content.count(CHUNK)
        numbers = SEQ.findall(content)
        if numbers != expected[: len(numbers)] or len(numbers) != content.count(b"\n"):
            raise RuntimeError(f"the journal of {run} has a hole")
        if chunks != frames:
            raise RuntimeError(f"the journal of {run} holds {chunks} of {frames} frames")
