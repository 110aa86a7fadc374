"""Runs that end at once and readers that stand still: nothing of a stream may be missing."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import recovery_state as at
from daemon_process import BIN, DaemonProcess

SIZES = (1, 5, 50, 500)
AT_ONCE = 20


def message(count: int) -> str:
    """What the demo agent says for `chunks COUNT`."""
    return "".join(f"chunk {n} of {count}\n" for n in range(1, count + 1))


def check_runs_that_end_at_once(daemon: DaemonProcess, repo: Path, runs: int) -> None:
    """Start so many runs, in groups, and compare stream, journal and final message of each."""
    for start in range(0, runs, AT_ONCE):
        sizes = [SIZES[n % len(SIZES)] for n in range(start, min(start + AT_ONCE, runs))]
        started = [(at.start(daemon, repo, f"chunks {size}"), size) for size in sizes]
        for run, size in started:
            _check_run(daemon, run, size)


def _check_run(daemon: DaemonProcess, run: str, size: int) -> None:
    with daemon.client() as client, client.events(run) as stream:
        seen = list(stream)
    result = at.result(daemon, run)
    chunks = [event["text"] for event in seen if event["type"] == "agent.message_chunk"]

    assert result["outcome"] == "succeeded"
    assert len(chunks) == size
    assert "".join(chunks) == message(size) == result["final_message"]
    assert (at.directory(daemon, run) / "final.md").read_text() == message(size)
    assert seen == daemon.events(run)
    at.check_journal(seen)


class Tail:
    """A `coachman tail --json`, its output in a file."""

    def __init__(self, daemon: DaemonProcess, run: str, output: Path) -> None:
        self.output = output
        with output.open("wb") as file:
            self._process = subprocess.Popen(
                [str(BIN / "coachman"), "tail", run, "--json"],
                cwd=daemon.root,
                env=daemon.env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.PIPE,
            )

    def has_begun(self) -> bool:
        return self.output.stat().st_size > 0

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def events(self) -> list[at.Event]:
        """All that it printed by its end."""
        _, errors = self._process.communicate(timeout=60)
        assert (self._process.returncode, errors) == (0, b"")
        return [json.loads(line) for line in self.output.read_bytes().splitlines()]

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def check_a_reader_that_stands_still(
    daemon: DaemonProcess,
    repo: Path,
    chunks: int,
    eventually: Callable[..., object],
    frozen_s: float = 0.0,
) -> None:
    """One of two tails stands still until the run is over, and for ``frozen_s`` at least."""
    run = at.start(daemon, repo, f"ask ready\nchunks {chunks}", permissions="ask")
    request = at.until_asked(daemon, run)
    tails = [Tail(daemon, run, daemon.root / f"tail-{n}") for n in range(2)]
    try:
        eventually(lambda: all(tail.has_begun() for tail in tails))
        tails[1].freeze()
        since = time.monotonic()
        with daemon.client() as client:
            client.permission.answer(request, run=run, kind="allow")
        at.result(daemon, run)
        lively = tails[0].events()
        time.sleep(max(0.0, since + frozen_s - time.monotonic()))
        tails[1].thaw()
        frozen = tails[1].events()
    finally:
        for tail in tails:
            tail.end()
    written = daemon.events(run)
    at.check_journal(written)
    for printed in (lively, frozen):
        assert printed.pop()["type"] == "stream.ended"
        assert [event["seq"] for event in printed] == [event["seq"] for event in written]
        assert printed == written
