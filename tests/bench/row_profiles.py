"""The price of walls, and what comes on top of them, profile by profile."""

from collections.abc import Iterator
from typing import Any

from by_hand import ByHand
from figures import Figure, row
from row_first_event import heard_s
from row_run import phases
from timing import medians
from world import Bench, World

# The command agent has no hosts of its own: with these, its network `agent` is the gate.
AGENT = "reaching"
CONFIGURATION = f"""
[agents.{AGENT}]
adapter = "command"
hosts = ["models.invalid:443"]
"""
PROMPT = "hi"
CASES = (
    ("edit", "agent"),
    ("edit", "none"),
    ("review", "agent"),
    ("review", "none"),
    ("sealed", "agent"),
    ("sealed", "none"),
    ("host", "host"),
)


@row("profiles")
def measure(bench: Bench) -> Iterator[Figure]:
    """Each profile's start-up to the first byte of `/bin/cat`, against bare bwrap alike."""
    with bench.world() as world:
        world.configuration = CONFIGURATION
        world.start()
        for number, (profile, network) in enumerate(CASES):
            yield _figure(bench, world, number, profile, network)


def _figure(bench: Bench, world: World, number: int, profile: str, network: str) -> Figure:
    options: dict[str, Any] = {
        "agent": AGENT,
        "argv": ["/bin/cat"],
        "profile": profile,
        "network": [network],
    }
    run = world.run(PROMPT, **options)
    world.wait(run)
    hand = ByHand(world, run, number)
    known = set(world.daemon.state.glob("runs/*"))
    heard, alone = medians(
        bench.scale(15, 6),
        lambda: heard_s(world, PROMPT, options),
        lambda: hand.first_byte_s(PROMPT),
    )
    new = [path.name for path in set(world.daemon.state.glob("runs/*")) - known]
    return Figure(
        f"start-up in {profile}, network {network}",
        heard * 1000,
        "ms",
        "bare bwrap with its binds",
        alone * 1000,
        detail={"binds": hand.binds, **phases(world, new)},
    )
