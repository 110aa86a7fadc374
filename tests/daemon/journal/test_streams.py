"""From the journal through the socket to its readers: complete, in order, once."""

from collections.abc import Callable
from pathlib import Path

from daemon_process import DaemonProcess
from recovery_streams import check_a_reader_that_stands_still, check_runs_that_end_at_once

RUNS = 40
# More than a socket, a peer's buffer and a reader's pipe hold.
CHUNKS = 12_000


def test_no_chunk_is_missing_of_runs_that_end_at_once(daemon: DaemonProcess, repo: Path) -> None:
    """Runs of 1, 5, 50 and 500 chunks are whole in journal, stream and final message."""
    check_runs_that_end_at_once(daemon, repo, RUNS)


def test_a_reader_that_stands_still_delays_only_itself_and_misses_nothing(
    daemon: DaemonProcess, repo: Path, eventually: Callable[..., object]
) -> None:
    """Two tails, one stopped until the run is over: both print every event in order, once."""
    check_a_reader_that_stands_still(daemon, repo, CHUNKS, eventually)
