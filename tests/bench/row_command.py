"""The price of a client command."""

import sys
from collections.abc import Iterator
from pathlib import Path

from figures import Figure, row
from timing import command_s, medians
from world import Bench

import coachman

TARGET_RATIO = 3.0
WRAPPER_TARGET_MS = 10.0


@row("command")
def measure(bench: Bench) -> Iterator[Figure]:
    """`coachman status` as a whole process, against an interpreter that does nothing."""
    with bench.world() as world:
        daemon = world.start()
        bare = [sys.executable, "-I", "-S", "-c", "pass"]
        root = str(Path(coachman.__file__).parents[1])
        program = (
            f"import sys; sys.path.append({root!r}); "
            "from coachman.cli.main import main; sys.argv[1:] = ['status']; sys.exit(main())"
        )
        inner = [sys.executable, "-I", "-S", "-c", program]
        bare_s, whole_s, inner_s = medians(
            bench.scale(40, 15),
            lambda: command_s(bare),
            lambda: command_s(world.command("status"), daemon.env),
            lambda: command_s(inner, daemon.env),
        )
    ratio = whole_s / bare_s
    yield Figure(
        "client command (coachman status)",
        whole_s * 1000,
        "ms",
        "python -I -S -c pass",
        bare_s * 1000,
        f"≤ {TARGET_RATIO}×",
        ratio <= TARGET_RATIO,
    )
    wrapper_ms = (whole_s - inner_s) * 1000
    yield Figure(
        "of that, the sh launcher",
        wrapper_ms,
        "ms",
        "the same without it",
        inner_s * 1000,
        f"≤ {WRAPPER_TARGET_MS:.0f} ms",
        wrapper_ms <= WRAPPER_TARGET_MS,
    )
