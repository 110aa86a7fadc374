"""The price of carrying one bounded run."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from by_hand import ByHand
from figures import Figure, row
from timing import command_s, medians
from world import Bench, World

TARGET_RATIO = 2.5
Agents = tuple[tuple[str, str, tuple[str, ...], dict[str, Any]], ...]
# Neither does anything: one speaks ACP, the other is no agent at all.
AGENTS: Agents = (
    ("demo `say hi`", "say hi", ("-a", "demo", "say hi"), {}),
    (
        "-- /bin/cat",
        "hi",
        ("-a", "command", "hi", "--", "/bin/cat"),
        {"agent": "command", "argv": ["/bin/cat"]},
    ),
)
PHASES = (
    ("accepted to worktree and policy", "run.queued", "attempt.started"),
    ("keeper and sandbox", "attempt.started", "run.started"),
    ("agent's first event", "run.started", "first event"),
    ("agent's exit", "first event", "attempt.ended"),
    ("work recorded, verdict", "attempt.ended", "run.ended"),
)


@row("run")
def measure(bench: Bench) -> Iterator[Figure]:
    """One bounded run from CLI start to CLI exit, against the same argv and worktree by hand."""
    with bench.world() as world:
        daemon = world.start()
        for name, prompt, arguments, options in AGENTS:
            run = world.run(prompt, **options)
            world.wait(run)
            hand = ByHand(world, run)
            argv = world.command("run", *arguments)
            known = set(daemon.state.glob("runs/*"))
            whole_s, hand_s = medians(
                bench.scale(15, 6),
                lambda argv=argv: command_s(argv, daemon.env, world.repo),
                lambda hand=hand, prompt=prompt: hand.bounded_run_s(prompt),
            )
            new = [path.name for path in set(daemon.state.glob("runs/*")) - known]
            yield Figure(
                f"run {name}, CLI start to exit",
                whole_s * 1000,
                "ms",
                "by hand",
                hand_s * 1000,
                f"≤ {TARGET_RATIO}×",
                whole_s / hand_s <= TARGET_RATIO,
                phases(world, new),
            )


def phases(world: World, runs: list[str]) -> dict[str, str]:
    """Where the time went, by the journals' times: medians."""
    found: dict[str, list[int]] = {name: [] for name, _, _ in PHASES}
    for run in runs:
        events = world.daemon.events(run)
        at = {event["type"]: event["ts"] for event in reversed(events)}
        spoken = [event["ts"] for event in events if "n" in event]
        at["first event"] = spoken[0] if spoken else at["attempt.ended"]
        for name, first, last in PHASES:
            found[name].append(at[last] - at[first])
    return {name: f"{median(values):.0f} ms" for name, values in found.items()}
