"""The price of the shell client."""

from collections.abc import Iterator
from pathlib import Path

from figures import Figure, row
from timing import command_s, medians
from world import Bench

TARGET_MS = 10.0
SCRIPT = Path(__file__).parents[2] / "client/sh/coachman.sh"


@row("shell")
def measure(bench: Bench) -> Iterator[Figure]:
    """`coachman.sh status` as a whole process, against a shell that does nothing."""
    with bench.world() as world:
        daemon = world.start()
        whole_s, empty_s = medians(
            bench.scale(60, 20),
            lambda: command_s(["/bin/sh", str(SCRIPT), "status"], daemon.env),
            lambda: command_s(["/bin/sh", "-c", ":"]),
        )
    yield Figure(
        "shell client (coachman.sh status)",
        whole_s * 1000,
        "ms",
        "sh -c :",
        empty_s * 1000,
        f"≤ {TARGET_MS:.0f} ms",
        whole_s * 1000 <= TARGET_MS,
    )
