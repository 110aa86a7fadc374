"""How soon an agent is heard."""

import time
from collections.abc import Iterator
from typing import Any

from by_hand import ByHand
from figures import Figure, row
from row_run import AGENTS
from timing import medians
from world import Bench, World, request

MARGIN_MS = 30.0


@row("first-event")
def measure(bench: Bench) -> Iterator[Figure]:
    """`run.start` answered to the agent's first event, against the agent alone to a first byte."""
    with bench.world() as world:
        world.start()
        for name, prompt, _, options in AGENTS:
            run = world.run(prompt, **options)
            world.wait(run)
            hand = ByHand(world, run)
            heard, alone = medians(
                bench.scale(15, 6),
                lambda prompt=prompt, options=options: heard_s(world, prompt, options),
                lambda hand=hand, prompt=prompt: hand.first_byte_s(prompt),
            )
            yield Figure(
                f"first event of {name}",
                heard * 1000,
                "ms",
                "alone to its first byte",
                alone * 1000,
                f"≤ agent + {MARGIN_MS:.0f} ms",
                (heard - alone) * 1000 <= MARGIN_MS,
            )


def heard_s(world: World, prompt: str, options: dict[str, Any]) -> float:
    """From the answer of `run.start` to the run's first event of its agent; the run has ended."""
    with world.connect() as connection:
        members = {"agent": "demo", "prompt": prompt, "dir": str(world.repo), **options}
        run = connection.call("run.start", **members)["run"]
        begun = time.perf_counter()
        connection.socket.sendall(request("event.subscribe", run=run))
        while "n" not in connection.event().get("params", {}).get("event", {}):
            pass
        taken = time.perf_counter() - begun
    world.wait(run)
    return taken
