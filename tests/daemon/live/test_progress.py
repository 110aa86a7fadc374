"""Agents that do the same over and over, and what a result tells whoever runs one again."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

import live_runs as live
import recovery_state as at
from daemon_process import DaemonProcess, git
from hostile_stage import Stage, staged


@pytest.fixture
def stage(state_dir: Path) -> Iterator[Stage]:
    """A daemon and its hostile agent."""
    with staged(state_dir) as found:
        yield found


def test_an_agent_that_gets_nowhere_is_not_waited_for_for_ever(stage: Stage) -> None:
    """It used tools, so that the limit is a new one each time: the third time is the last."""
    run = stage.start("acp", "stuck 1", retries=0)
    result = stage.result(run)
    recorded = live.of_type(stage.daemon, run, "turn.recorded")

    assert (result["outcome"], result["stop_reason"]) == ("failed", "no_progress")
    assert "3 attempts in a row left the same tree" in result["error"]["message"]
    assert result["attempts"] == 3
    assert [event["tree"] for event in recorded] == [result["tree"]] * 3
    assert stage.daemon.keepers() == []
    at.check_journal(stage.daemon.events(run))


def test_a_result_tells_what_it_came_to(daemon: DaemonProcess, repo: Path) -> None:
    """Two runs that left the same tree and said the same have both in common, and only then."""
    prompts = ("write a.txt x\nsay done", "write a.txt x\nsay done", "write a.txt y\nsay so")
    runs = [at.start(daemon, repo, prompt, task="t1") for prompt in prompts[:1]]
    results = [at.result(daemon, runs[0])]
    for prompt in prompts[1:]:
        runs.append(at.start(daemon, repo, prompt, task="t1"))
        results.append(at.result(daemon, runs[-1]))
    first, again, other = [(found["tree"], found["message_sha256"]) for found in results]
    named = git(repo, "rev-parse", f"refs/coachman/run/{runs[0]}^{{tree}}")

    assert first == again == (named, sha256(b"done").hexdigest())
    assert not {*first} & {*other}


def test_silence_after_words_of_a_limit_is_that_limit(stage: Stage) -> None:
    """An agent that asks again by itself tells it on stderr at most; else it has just stalled."""
    ends = {"limit": ("limited", 75), "noise": ("timed_out", 124), "later": ("timed_out", 124)}
    runs = {
        words: stage.start("acp", f"retries {words}", timeouts={"stall_s": 3}) for words in ends
    }
    for words, run in runs.items():
        outcome, code = ends[words]
        result = stage.result(run)
        waited = stage.daemon.cli("wait", run, cwd=stage.repo)
        ended = (result["outcome"], result["stop_reason"], waited.returncode)
        assert ended == (outcome, "stall", code), words
        assert ("status 429" in result["error"]["message"]) is (outcome == "limited")
        at.check_journal(stage.daemon.events(run))
