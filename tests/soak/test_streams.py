"""Many runs that end at once, and a reader that stands still for long: `scripts/soak streams`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from daemon_process import DaemonProcess
from recovery_streams import check_a_reader_that_stands_still, check_runs_that_end_at_once

pytestmark = pytest.mark.soak
RUNS_A_ROUND = 4
CHUNKS = 60_000
FROZEN_S = 40.0


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
