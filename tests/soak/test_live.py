"""Storms over kept runs: `scripts/soak live`. What was promised is kept, whoever dies."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon_process import DaemonProcess, make_repository
from live_storm import LiveStorm

pytestmark = pytest.mark.soak
RUNS_AT_ONCE = 2
ROUNDS = 30


def test_no_promise_is_broken_by_a_daemon_that_is_killed(
    daemon: DaemonProcess, state_dir: Path, eventually: Callable[..., object]
) -> None:
    """Whatever is asked and killed in any order, a prompt is told once or named as dropped."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    kills = prompts = 0
    for number in range(ROUNDS):
        storm = LiveStorm(daemon, make_repository(state_dir / f"repo-{number}"), chance)
        for _ in range(RUNS_AT_ONCE):
            storm.start()
        for _ in range(chance.choice([1, 2, 3])):
            for _ in range(chance.choice([0, 1, 2])):
                storm.steer(chance.choice(storm.runs))
            storm.kill_amid(lambda storm=storm: storm.steer(chance.choice(storm.runs)))
        storm.settle()
        storm.check(eventually)
        kills += storm.kills
        prompts += storm.asked
    print(f"{kills} kills over {prompts} prompts")
    assert kills >= ROUNDS
