"""Many runs that end at once, and a reader that stands still for long: `scripts/soak streams`."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon_process import DaemonProcess
from merged_followers import check_followers_through_kills
from recovery_streams import check_a_reader_that_stands_still, check_runs_that_end_at_once

pytestmark = pytest.mark.soak
RUNS_A_ROUND = 4
CHUNKS = 60_000
FROZEN_S = 40.0
FOLLOWERS = 10


def test_no_chunk_is_missing_of_many_runs_that_end_at_once(
    daemon: DaemonProcess, repo: Path, rounds: int
) -> None:
    """400 runs (80 in CI) are whole in journal, stream and final message."""
    check_runs_that_end_at_once(daemon, repo, RUNS_A_ROUND * rounds)


def test_a_reader_that_stands_still_for_long_misses_nothing(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """A tail that was stopped for 40 s prints every event in order, once, as does the other."""
    check_a_reader_that_stands_still(daemon, repo, CHUNKS, eventually, FROZEN_S)


def test_followers_of_many_runs_miss_nothing_through_kills(
    daemon: DaemonProcess, repo: Path, times: int
) -> None:
    """Ten followers of one filter, a daemon that is killed under each run: ten same streams."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    check_followers_through_kills(daemon, repo, followers=FOLLOWERS, kills=times, chance=chance)
