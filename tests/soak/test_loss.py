"""Storms over people's work: `scripts/soak loss`. Nothing of it becomes unreachable."""

import random
from pathlib import Path

import pytest

from daemon_process import DaemonProcess
from loss_storm import LossStorm, cancel
from repos_fixtures import git, make_repo

pytestmark = pytest.mark.soak
FILES = {"a.txt": b"1\n", "sub/b.txt": b"2\n", ".gitignore": b"*.log\n.env\nbuild/\n"}
ROUNDS_OF_ONE_REPOSITORY = 25


def test_no_interleaving_of_edits_kills_cancels_and_cleanups_loses_a_byte(
    state_dir: Path, rounds: int
) -> None:
    """Every content of every worktree is in it still, or a ref leads to it, after each cleanup."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    config = state_dir / "config.toml"
    config.write_text('[retention]\nkeep_ignored = [".env"]\n')
    daemon = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)}).start()
    storms = []
    try:
        for number in range(rounds):
            if number % ROUNDS_OF_ONE_REPOSITORY == 0:
                repo = state_dir / f"repo{number}"
                make_repo(repo, FILES)
                storms.append(LossStorm(daemon, repo, chance))
            storms[-1].round()
            if number % TOLD_EVERY == 0:
                print(f"{number} interleavings", flush=True)
        for storm in storms:
            cancel(storm)
            assert git(storm.repo, "fsck", "--no-dangling") == ""
    finally:
        daemon.tidy()
    told = {name: sum(getattr(storm, name) for storm in storms) for name in TOLD}
    print(f"{rounds} interleavings: {told}, 0 bytes lost")
    assert told["removed"] > rounds / 20
    assert told["salvaged"] > rounds / 50


TOLD_EVERY = 100
TOLD = ("kills", "cleanups", "removed", "salvaged", "refused")
