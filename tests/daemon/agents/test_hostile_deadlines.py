"""Agents that would never end, or are told to wait: each limit is kept, and nothing is left."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import recovery_state as at
from coachmand.runs.ending.ladder import CANCEL, CLOSE_STDIN, TERM
from hostile_stage import Stage, staged

WALL_S = 3.0
# How late an end begins, and how long dying takes, is up to the machine, which is busy with other
# tests; what is awaited here would never come by itself.
LATE_S = 15.0
LADDER_S = CANCEL.grace_s + CLOSE_STDIN.grace_s + TERM.grace_s
CASES = [
    ("acp", "deaf"),
    ("acp", "forks"),
    ("acp", "stops_itself"),
    ("acp", "closes"),
    ("exec", "deaf"),
    ("command", "deaf"),
    ("command", "closes"),
]
Runs = Mapping[tuple[str, str], str]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A daemon and its hostile agents."""
    with (
        tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as root,
        staged(Path(root), len(CASES)) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def runs(stage: Stage) -> Runs:
    """All of them, side by side."""
    limit = {"wall_s": WALL_S}
    return {case: stage.start(*case, timeouts=limit) for case in CASES}


def moment_s(events: list[dict[str, Any]], type_: str) -> float:
    """When the last line of that type was written."""
    return [event["ts"] for event in events if event["type"] == type_][-1] / 1000


@pytest.mark.parametrize(("wire", "mode"), CASES)
def test_a_run_that_does_not_end_is_ended(stage: Stage, runs: Runs, wire: str, mode: str) -> None:
    """Its time is over at its limit, not before, and its tree soon after the last grace."""
    run = runs[wire, mode]
    result, events = stage.result(run), stage.daemon.events(run)
    expired_s = moment_s(events, "deadline.expired")
    [due_s] = [event["deadline"] / 1000 for event in events if event["type"] == "deadline.warned"]

    assert (result["outcome"], result["stop_reason"]) == ("timed_out", "wall")
    assert 0 <= expired_s - due_s <= LATE_S
    assert abs(due_s - moment_s(events, "run.queued") - WALL_S) <= LATE_S
    assert moment_s(events, "attempt.ended") - expired_s <= LADDER_S + LATE_S
    assert at.living(at.sandbox_pids(stage.daemon, run)[1:]) == []
    at.check_journal(events)


LIMITED = [
    (wire, resets)
    for wire in ("acp", "claude", "exec", "server", "pi")
    for resets in ("limited 0", "limited 60")
]


@pytest.fixture(scope="module")
def limited(stage: Stage, runs: Runs) -> Runs:
    """Runs of providers that are used up, once the others are over."""
    for run in runs.values():
        stage.result(run)
    return {case: stage.start(*case, on_limit="fail") for case in LIMITED}


@pytest.mark.parametrize(("wire", "mode"), LIMITED)
def test_a_used_up_provider_is_told_apart_from_a_failure(
    stage: Stage, limited: Runs, wire: str, mode: str
) -> None:
    """With a time when it ends or without one, the run is `limited`, in the agent's words."""
    result = stage.result(limited[wire, mode])

    assert (result["outcome"], result["stop_reason"]) == ("limited", "limited")
    assert "too many requests" in result["error"]["message"]
