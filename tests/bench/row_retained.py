"""What a hundred thousand retained runs cost. Only the index knows of them: no files are made."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
from figures import Figure, row
from timing import medians, percentile, seconds
from world import Bench, Connection, World, request

from coachmand.evidence.ids import ALPHABET
from coachmand.evidence.index import Index

RUNS = 100_000
INTERVAL_MS = 60_000
PUT_AT_ONCE = 5000
LIST_TARGET_MS = 50.0
START_TARGET_S = 1.5
LISTS: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("recent", {}, True),
    ("all, first page", {"all": True, "limit": 100}, True),
    ("of one task", {"task": "task-00007"}, True),
    ("by a label that none has", {"labels": {"team": "none"}}, False),
)


@row("retained")
def measure(bench: Bench) -> Iterator[Figure]:
    """`run.list` and the daemon's start with 100,000 retained runs, against none."""
    with bench.world() as world, bench.world() as empty:
        empty.start()
        summary = _ended_run(world)
        _fill(world, summary)
        world.start()
        yield from _lists(bench, world, empty)
        full_s, empty_s = medians(
            bench.scale(5, 2), lambda: _start_s(world), lambda: _start_s(empty)
        )
        yield Figure(
            f"daemon start to its first answer, {RUNS:,} runs",
            full_s * 1000,
            "ms",
            "no runs",
            empty_s * 1000,
            f"≤ {START_TARGET_S} s",
            full_s <= START_TARGET_S,
        )
        yield _rebuilt(world, summary, bench.scale(5000, 1000), empty_s)


def _lists(bench: Bench, world: World, empty: World) -> Iterator[Figure]:
    times = bench.scale(200, 30)
    with world.connect() as full, empty.connect() as none:
        for name, params, has_target in LISTS:
            line = request("run.list", **params)
            # A list that reads every run need not be repeated as often.
            count = times if has_target else max(3, times // 20)
            value, beside = (_p99_ms(connection, line, count) for connection in (full, none))
            yield Figure(
                f"run.list {name}, {RUNS:,} runs, p99",
                value,
                "ms",
                "no runs",
                beside,
                f"≤ {LIST_TARGET_MS:.0f} ms" if has_target else "",
                value <= LIST_TARGET_MS if has_target else None,
            )


def _p99_ms(connection: Connection, line: bytes, times: int) -> float:
    connection.round_trip(line)
    return percentile([connection.round_trip(line) for _ in range(times)], 99) * 1000


def _ended_run(world: World) -> dict[str, Any]:
    """The summary of a run that a daemon carried, as its index has it."""
    world.start()
    run = world.run("say hi", task="first")
    world.wait(run)
    world.daemon.stop()
    index = Index(world.daemon.state / "index.db")
    found = index.get(run)
    index.close()
    assert found is not None
    return found


def _fill(world: World, summary: dict[str, Any]) -> None:
    index = Index(world.daemon.state / "index.db")
    for start in range(0, RUNS, PUT_AT_ONCE):
        index.put(_summary(summary, n) for n in range(start, start + PUT_AT_ONCE))
    index.close()


def _summary(summary: dict[str, Any], number: int) -> dict[str, Any]:
    """A run that ended ``number`` minutes ago, in one of twenty thousand tasks."""
    ended = summary["ended_at"] - number * INTERVAL_MS
    stamp = time.strftime("%y%m%d-%H%M%S", time.gmtime(ended / 1000))
    handle = "".join(ALPHABET[(number >> shift) % 32] for shift in (20, 15, 10, 5, 0))
    members = {
        "run": f"{stamp}-{handle}",
        "handle": handle,
        "task": f"task-{number % 20_000:05}",
        "created_at": ended - 500,
        "started_at": ended - 400,
        "ended_at": ended,
    }
    return {**summary, **members}


def _start_s(world: World) -> float:
    world.daemon.stop()
    return seconds(lambda: _answered(world))


def _answered(world: World) -> None:
    world.daemon.start()
    with world.connect() as connection:
        connection.call("daemon.ping")


def _rebuilt(world: World, summary: dict[str, Any], count: int, empty_s: float) -> Figure:
    """The start that finds no index and reads ``count`` results from their files."""
    world.daemon.stop()
    for path in world.daemon.state.glob("index.db*"):
        path.unlink()
    for number in range(count):
        made = _summary(summary, number)
        path = world.daemon.state / "runs" / made["run"]
        path.mkdir()
        (path / "result.json").write_bytes(msgspec.json.encode({"format": 1, "summary": made}))
    taken = seconds(lambda: _answered(world))
    return Figure(
        f"daemon start that rebuilds a lost index of {count:,} runs",
        taken * 1000,
        "ms",
        "no runs",
        empty_s * 1000,
    )
