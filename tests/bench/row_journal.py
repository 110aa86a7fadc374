"""The price of a journal line."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import trio
from figures import Figure, row
from world import Bench

from coachmand.journal.lines import Entry
from coachmand.journal.log import Journal

RUN = "261129-220417-k7q3x"
BATCH_LINES = 1000
TARGET_PER_S = 50_000
ENVELOPE = {"attempt": 1, "turn": 1, "session": "demo-0123456789abcdef"}


@row("journal")
def measure(bench: Bench) -> Iterator[Figure]:
    """Journal lines per second, durable by the journal's rule, against plain buffered writes."""
    many, few = bench.scale(50_000, 20_000), bench.scale(5_000, 2_000)
    for what, count, batch, target in (
        (f"journal, batches of {BATCH_LINES}", many, BATCH_LINES, TARGET_PER_S),
        ("journal, one line at a time", few, 1, None),
    ):
        rates, plain = [], []
        for number in range(bench.scale(5, 3)):
            with bench.directory_of_its_own() as directory:
                path = directory / f"{number}.ndjson"
                rates.append(count / trio.run(_append, path, entries(count), batch))
                plain.append(count / _write(path.with_suffix(".plain"), path.read_bytes()))
        rate = median(rates)
        yield Figure(
            what,
            rate,
            "lines/s",
            "buffered write",
            median(plain),
            f"≥ {target:,}/s" if target else "",
            rate >= target if target else None,
        )


def entries(count: int) -> list[Entry]:
    """Chunks as an agent streams them."""
    return [
        Entry("agent.message_chunk", {"message_id": "m1-1", "text": f"chunk {n} of {count}\n"}, n)
        for n in range(1, count + 1)
    ]


async def _append(path: Path, lines: Sequence[Entry], batch: int) -> float:
    journal = Journal(path, RUN)
    begun = time.perf_counter()
    for start in range(0, len(lines), batch):
        await journal.append(lines[start : start + batch], ENVELOPE)
    await journal.sync()
    taken = time.perf_counter() - begun
    journal.close()
    return taken


def _write(path: Path, content: bytes) -> float:
    lines = content.splitlines(keepends=True)
    begun = time.perf_counter()
    with path.open("wb") as file:
        for line in lines:
            file.write(line)
    return time.perf_counter() - begun
