"""Floods and lines of many megabytes: the daemon is as small after them as it was before."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import recovery_state as at
from hostile_stage import Stage, own_bytes, staged

MEBIBYTE = 1024 * 1024
GROWTH_BYTES = 10 * MEBIBYTE
SETTLED_S = 10.0
RESULT_LIMIT_S = 240.0


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A daemon that has had its first runs."""
    with (
        tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as root,
        staged(Path(root)) as found,
    ):
        for wire in ("acp", "command"):
            found.result(found.start(wire, "nothing"))
        yield found


def settled_bytes(pid: int, most: int) -> int:
    """Memory once it is at most ``most``, or what it still is after a while."""
    ends = time.monotonic() + SETTLED_S
    while (found := own_bytes(pid)) > most and time.monotonic() < ends:
        time.sleep(0.2)
    return found


@pytest.mark.parametrize(
    ("wire", "mode", "words"),
    [
        ("acp", "long_line 63", "[cut]after it"),
        ("claude", "long_line 63", "[cut]after it"),
        ("acp", "long_line 70", "after it"),
        ("acp", "dense_line 6", "xafter it"),
        ("acp", "flood 4 frames", "the end"),
        ("pi", "flood 4 text", "the end"),
        ("command", "flood 60 text", "the end"),
    ],
)
def test_a_flood_leaves_the_daemon_as_small_as_it_was(
    stage: Stage, wire: str, mode: str, words: str
) -> None:
    """The run is told to its end, and 10 MB at most stay behind."""
    assert stage.daemon.process is not None
    pid = stage.daemon.process.pid
    before = own_bytes(pid)
    run = stage.start(wire, mode)
    result = stage.result(run, RESULT_LIMIT_S)

    assert result["outcome"] == "succeeded"
    assert result["final_message"].endswith(words)
    assert settled_bytes(pid, before + GROWTH_BYTES) - before <= GROWTH_BYTES


def test_a_line_that_is_cut_says_where_all_of_it_is(stage: Stage) -> None:
    """What is told of it has the place of the whole line in the raw log."""
    run = stage.start("acp", "long_line 2")
    stage.result(run)
    cut, *others = [event["cut"] for event in stage.daemon.events(run) if "cut" in event]
    log = at.attempt(stage.daemon, run, cut["attempt"]) / f"{cut['stream']}.0"
    line = log.read_bytes()[cut["offset"] :][: cut["bytes"]]

    assert all(other == cut for other in others)
    assert line.count(b"y") >= 2 * MEBIBYTE
    assert (line[:1], line[-1:]) == (b"{", b"}")
