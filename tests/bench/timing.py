"""Repeated measurements: interleaved, so that a loaded machine loads each side alike."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

COMMAND_LIMIT_S = 60.0
POLL_S = 0.005


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that ``percent`` of all are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def seconds(action: Callable[[], object]) -> float:
    """How long ``action`` takes."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def interleaved(times: int, *actions: Callable[[], float]) -> list[list[float]]:
    """What each action returned, called in turn; a first round warms up and is dropped."""
    found: list[list[float]] = [[] for _ in actions]
    for number in range(times + 1):
        for values, action in zip(found, actions, strict=True):
            value = action()
            if number:
                values.append(value)
    return found


def medians(times: int, *actions: Callable[[], float]) -> list[float]:
    """The median of what each action returned, called in turn."""
    return [median(values) for values in interleaved(times, *actions)]


def command_s(
    argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> float:
    """How long a whole process takes, from its start to its exit. Raises where it fails."""
    begun = time.perf_counter()
    done = subprocess.run(
        argv,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    taken = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(f"{argv} exited {done.returncode}: {done.stderr[-2000:]!r}")
    return taken


def until(
    condition: Callable[[], object], limit_s: float = COMMAND_LIMIT_S, look_s: float = POLL_S
) -> None:
    """Wait until ``condition`` holds. Raises TimeoutError."""
    ends = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > ends:
            raise TimeoutError(f"it did not come to hold within {limit_s:.0f} s")
        time.sleep(look_s)


def turns(limit_s: float) -> Iterator[int]:
    """Numbers from 0 until ``limit_s`` is over."""
    ends = time.monotonic() + limit_s
    number = 0
    while time.monotonic() < ends:
        yield number
        number += 1


def machine() -> dict[str, object]:
    """What the figures depend on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "kernel": os.uname().release,
    }
