"""What it costs to have a real agent carried: scripts/bench --agents, where some are installed."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from figures import Figure, row
from world import Bench, World, request

sys.path.append(str(Path(__file__).parents[1] / "agents"))

from model_server import ModelServer
from parts import PARTS, Part
from record import Bench as Bare

MARGIN_MS = 30.0
PROMPT = "SAY hello world"
Times = tuple[float, float]


def installed() -> dict[str, Part]:
    """The parts whose CLIs are there."""
    modules = Path(agents() or "/nonexistent") / "node_modules"
    return {name: part for name, part in PARTS.items() if (modules / part.executable).exists()}


def agents() -> str | None:
    """The directory that holds the CLIs, as for the tests."""
    return os.environ.get("COACHMAN_TEST_AGENTS")


def _register(part: Part) -> None:
    def measure(bench: Bench) -> Iterator[Figure]:
        with bench.world() as world, ModelServer() as model:
            _set_up(world, part, model)
            world.start()
            carried, bare = [], []
            for number in range(bench.scale(3, 1) + 1):
                found = _carried(world, part), _bare(world, part, model, number)
                # The first round fills caches.
                if number:
                    carried.append(found[0])
                    bare.append(found[1])
            yield from _figures(part, carried, bare)

    measure.__doc__ = f"A turn of {part.name}, against the bare CLI driven by the same adapter."
    row(f"agent-{part.name}", wanted=False)(measure)


def _figures(part: Part, carried: list[Times], bare: list[Times]) -> Iterator[Figure]:
    heard_s, whole_s = (median(times) for times in zip(*carried, strict=True))
    alone_s, turn_s = (median(times) for times in zip(*bare, strict=True))
    yield Figure(
        f"first event of {part.name}",
        heard_s * 1000,
        "ms",
        "alone to its first byte",
        alone_s * 1000,
        f"≤ agent + {MARGIN_MS:.0f} ms",
        (heard_s - alone_s) * 1000 <= MARGIN_MS,
    )
    yield Figure(
        f"run of {part.name}, asked to ended",
        whole_s * 1000,
        "ms",
        "alone",
        turn_s * 1000,
    )


def _kept(part: Part) -> bool:
    """Whether its CLI has another way for runs that take one prompt and ask for nothing."""
    return part.permissions == "ask"


def _set_up(world: World, part: Part, model: ModelServer) -> None:
    for name, text in part.files(model).items():
        path = world.daemon.home / name
        if path == world.config:
            world.configuration = text
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    bin_dir = Path(agents() or "/nonexistent") / "node_modules" / ".bin"
    path = f"{bin_dir}:{world.daemon.env['PATH']}"
    world.daemon.env |= {**part.env(model), "PATH": path}


def _carried(world: World, part: Part) -> Times:
    """From the start's answer to the first event, and from the question to the run's end."""
    asked = {"agent": part.adapter, "model": part.model, "prompt": PROMPT, "dir": str(world.repo)}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value}
    with world.connect() as connection:
        begun = time.perf_counter()
        run = connection.call("run.start", **given, keep=_kept(part))["run"]
        answered = time.perf_counter()
        connection.socket.sendall(request("event.subscribe", run=run))
        while "n" not in connection.event().get("params", {}).get("event", {}):
            pass
        heard = time.perf_counter()
        with world.connect() as other:
            other.call("run.close", runs=[run])
        world.wait(run)
        return heard - answered, time.perf_counter() - begun


def _bare(world: World, part: Part, model: ModelServer, number: int) -> Times:
    """The same turn outside: to the CLI's first byte, and to its exit."""
    scratch = world.root / f"bare-{number}"
    scratch.mkdir()
    bare = Bare(part, Path(agents() or "/nonexistent"), scratch, model)
    begun = time.perf_counter()
    asked = bare.request(permissions="allow", keep=_kept(part))
    drive = bare.drive(asked, {"prompts": [PROMPT]})
    whole_s = time.perf_counter() - begun
    if drive.heard_s is None:
        raise RuntimeError(f"{part.name} said nothing: {json.dumps(drive.steps)[-2000:]}")
    return drive.heard_s, whole_s


for _part in installed().values():
    _register(_part)
