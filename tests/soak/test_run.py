"""Agents and clients for minutes on end, and what the daemon takes: `scripts/soak run`."""

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import daemon_samples as samples
import recovery_state as at
from daemon_process import DaemonProcess, make_repository
from run_storm import CONFIGURATION, RunStorm

pytestmark = pytest.mark.soak
REPOSITORIES = 4
SAMPLES = 40
LONGEST_PAUSE_S = 15.0
# Of each daemon's life; caches fill, threads start and the heap finds its size meanwhile.
WARM_UP_SHARE = 0.4
# The newest events of all runs stay in memory, and the heap keeps the size of the busiest moment.
LEFT = {**samples.LEFT, "pss_mib": 40, "private_mib": 40}
# Longer than an idle git worker stays.
QUIET_WITHIN_S = 120.0


@pytest.fixture
def roomy(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon with a place for each of the runs."""
    process = DaemonProcess(state_dir, python=sys.executable)
    config = state_dir / "config.toml"
    config.write_text(CONFIGURATION)
    process.env["COACHMAN_CONFIG"] = str(config)
    process.start()
    yield process
    process.tidy()


def test_nothing_grows_however_long_agents_and_clients_come_and_go(
    roomy: DaemonProcess, state_dir: Path, minutes: float, eventually: Callable[..., object]
) -> None:
    """Memory, descriptors, tasks, threads, keepers stay within bounds, and all of it goes again."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    repos = [make_repository(state_dir / f"repo-{n}") for n in range(REPOSITORIES)]
    at.result(roomy, at.start(roomy, repos[0], "say hi"))
    eventually(lambda: samples.take(roomy).children == 0, QUIET_WITHIN_S)
    before, found = samples.take(roomy), []
    life_s = minutes * 60 / 2
    pause_s = min(LONGEST_PAUSE_S, minutes * 60 / SAMPLES)
    with RunStorm(roomy, repos, seed) as storm:
        for life in range(2):
            ends = time.monotonic() + life_s
            while time.monotonic() < ends:
                time.sleep(pause_s)
                found.append(samples.take(roomy))
            if life == 0:
                roomy.restart_in_place()
    print(storm.told())
    storm.finish()
    print(samples.table(found, life_s * WARM_UP_SHARE))
    storm.check(eventually)
    quiet = lambda: not samples.left_over(before, samples.take(roomy), LEFT)  # noqa: E731
    ends = time.monotonic() + QUIET_WITHIN_S
    while not quiet() and time.monotonic() < ends:
        time.sleep(1)
    after = samples.take(roomy)
    print(samples.table([before]), samples.table([after]), sep="\n")

    assert samples.grown(found, life_s * WARM_UP_SHARE) == []
    assert samples.left_over(before, after, LEFT) == []
