"""Storms of SIGKILL: `scripts/soak crash`. A run does not notice that its daemon died."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

import recovery_state as at
from daemon_process import DaemonProcess, make_repository
from recovery_storm import CANCELLED, SCENARIOS, Scenario, Storm
from recovery_streams import message

pytestmark = pytest.mark.soak
RUNS_AT_ONCE = 3
LONG_CHUNKS = 100_000
LONG_KILLS = 6


def test_no_run_notices_that_its_daemon_was_killed(
    daemon: DaemonProcess, state_dir: Path, rounds: int, eventually: Callable[..., object]
) -> None:
    """Killed at any moment, starting or concluding, every run ends as if it had not been."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    kills = 0
    for number in range(rounds):
        repo = make_repository(state_dir / f"repo-{number}")
        storm = Storm(daemon, repo, chance)
        for scenario in chance.sample([*SCENARIOS, CANCELLED], RUNS_AT_ONCE):
            storm.start(scenario)
            storm.linger(0.2)
        for _ in range(chance.choice([1, 1, 2, 3])):
            storm.linger(1.0)
            if chance.random() < 0.5:
                with daemon.client() as client:
                    storm.meddle(client)
                storm.linger(0.1)
            storm.kill()
        storm.settle()
        storm.check(eventually)
        kills += storm.kills
    print(f"{kills} kills over {rounds * RUNS_AT_ONCE} runs")
    assert kills >= rounds


def test_a_long_stream_is_whole_behind_its_checkpoints(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Many MiB of output, a checkpoint every four: each crash goes on from the last one."""
    chance = random.Random(11)
    storm = Storm(daemon, repo, chance)
    run = storm.start(Scenario("long", f"chunks {LONG_CHUNKS}", None))
    for _ in range(LONG_KILLS):
        storm.linger(1.5)
        storm.kill()
    storm.settle()
    storm.check(eventually)
    texts = [e["text"] for e in daemon.events(run) if e["type"] == "agent.message_chunk"]

    assert "".join(texts) == message(LONG_CHUNKS)
    assert (at.directory(daemon, run) / "final.md").read_text() == message(LONG_CHUNKS)
