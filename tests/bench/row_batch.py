"""Many small runs, a few at a time."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from by_hand import ByHand
from figures import Figure, row
from world import Bench, World

AT_ONCE = 8
TARGET_RATIO = 1.5


@row("batch")
def measure(bench: Bench) -> Iterator[Figure]:
    """64 trivial runs, 8 at a time, against 64/8 times one run, and against as many by hand."""
    count = bench.scale(64, 24)
    with bench.world() as world:
        world.start(AT_ONCE)
        first = world.run("say hi")
        world.wait(first)
        one_s = median(_runs_s(world, 1) for _ in range(bench.scale(7, 3)))
        ideal_s = one_s * count / AT_ONCE
        taken_s = _runs_s(world, count)
        hands = [ByHand(world, first, number) for number in range(AT_ONCE)]
        by_hand_s = _by_hand_s(hands, count)
        yield Figure(
            f"{count} trivial runs, {AT_ONCE} at a time",
            taken_s,
            "s",
            f"ideal, {count}/{AT_ONCE} of {one_s * 1000:.0f} ms",
            ideal_s,
            f"≤ {TARGET_RATIO}×",
            taken_s / ideal_s <= TARGET_RATIO,
        )
        yield Figure(
            f"{count} trivial runs, {AT_ONCE} at a time",
            taken_s,
            "s",
            f"by hand, {AT_ONCE} at a time",
            by_hand_s,
        )


def _runs_s(world: World, count: int) -> float:
    begun = time.perf_counter()
    runs = [world.run("say hi") for _ in range(count)]
    world.wait(*runs)
    return time.perf_counter() - begun


def _by_hand_s(hands: list[ByHand], count: int) -> float:
    def several(hand: ByHand) -> None:
        for _ in range(count // len(hands)):
            hand.bounded_run_s("say hi")

    begun = time.perf_counter()
    with ThreadPoolExecutor(len(hands)) as pool:
        list(pool.map(several, hands))
    return time.perf_counter() - begun
