"""Followers of many runs as one stream, while their daemon is killed over and over."""

import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import coachman
import recovery_state as at
from daemon_process import DaemonProcess

LABELS = {"of": "storm"}
PROMPT = "chunks 40\nsleep 0.2\nchunks 40"
JOIN_S = 120.0


class Follower(threading.Thread):
    """Follows until so many runs have ended, through any number of daemons."""

    def __init__(self, daemon: DaemonProcess, runs: int) -> None:
        super().__init__(daemon=True)
        self.events: list[dict[str, Any]] = []
        self.failure: Exception | None = None
        self._runs = runs
        self._client = daemon.client()
        self._stream = self._client.follow(labels=LABELS, reconnect_s=60)

    def run(self) -> None:
        ended = 0
        try:
            with self._client, self._stream:
                while ended < self._runs:
                    self.events.append(next(self._stream))
                    ended += self.events[-1]["type"] == "run.ended"
        except (coachman.CoachmanError, StopIteration) as error:
            self.failure = error


def check_followers_through_kills(
    daemon: DaemonProcess, repo: Path, *, followers: int, kills: int, chance: random.Random
) -> None:
    """Start a run, kill the daemon a moment later, again and again: nobody misses anything."""
    following = [Follower(daemon, kills) for _ in range(followers)]
    for one in following:
        one.start()
    runs = []
    for _ in range(kills):
        runs.append(at.start(daemon, repo, PROMPT, labels=LABELS))
        threading.Event().wait(chance.uniform(0.0, 0.6))
        daemon.restart()
    for run in runs:
        at.result(daemon, run)
    for one in following:
        one.join(JOIN_S)
        assert one.failure is None
        assert not one.is_alive()
    check_same(daemon, runs, [one.events for one in following])


def check_same(
    daemon: DaemonProcess, runs: Sequence[str], streams: Sequence[list[dict[str, Any]]]
) -> None:
    """All streams are the same one, in order, and hold each run's journal whole."""
    first = streams[0]
    places = [event["g"] for event in first]
    assert places == sorted(set(places))
    assert all(stream == first for stream in streams)
    for run in runs:
        assert [event for event in first if event["run"] == run] == daemon.events(run)
