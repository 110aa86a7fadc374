"""Staying with a run: where its message goes, and what silence is told."""

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from client_daemon import (
    HANDLE,
    RUN,
    FakeDaemon,
    Handler,
    Peer,
    command,
    environment,
    numbered,
    streaming,
)
from client_samples import AGENTS, result, started
from coachman import connect
from coachman.cli import foreground
from coachman.cli.console import Console
from coachman.cli.options import Arguments

EVENTS = numbered({"type": "agent.message_chunk", "text": "All done."})


def daemon_at(state_dir: Path, subscribe: Handler) -> FakeDaemon:
    scripted = {
        "daemon.hello": {},
        "agent.list": AGENTS,
        "run.start": started(),
        "event.subscribe": subscribe,
        "run.result": result(),
    }
    return FakeDaemon(state_dir / "control.sock", scripted)


def test_into_one_file_the_message_goes_once(state_dir: Path) -> None:
    """Where stdout and stderr are the same file, the progress has told the final message."""
    path = state_dir / "ci.log"
    with daemon_at(state_dir, streaming(EVENTS)):
        into(path, state_dir)

    assert path.read_text().count("All done.") == 1


def into(path: Path, state_dir: Path) -> None:
    """Run in the foreground with both streams into one file."""
    with path.open("wb") as log:
        subprocess.run(
            command("run", "fix it"),
            cwd=state_dir,
            env=environment(state_dir),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )


@pytest.mark.parametrize(
    "after",
    [
        {"type": "check.started", "command": "make test"},
        {"type": "run.closing", "by": {"resolver": "client", "user": "ann"}},
        {"type": "run.state", "from": "active", "to": "parked", "turn": 1},
        {"type": "agent.plan", "entries": [{"status": "completed", "content": "all"}]},
        {"type": "tool.call", "tool_call_id": "t", "title": "bye", "status": "completed"},
    ],
)
def test_what_comes_after_the_message_does_not_bring_it_back(
    state_dir: Path, after: dict[str, Any]
) -> None:
    """A check, a close, a parking or a last tool is a line behind the message, which stays said."""
    events = numbered(
        {"type": "agent.message_chunk", "text": "All "}, EVENTS[0] | {"text": "done."}, after
    )
    with daemon_at(state_dir, streaming(events)):
        into(state_dir / "ci.log", state_dir)

    assert (state_dir / "ci.log").read_text().count("All done.") == 1


def test_a_message_that_was_not_the_last_shown_is_printed(state_dir: Path) -> None:
    """What the result calls the final message is there, whatever else was said."""
    events = numbered({"type": "agent.message_chunk", "text": "Something else."})
    with daemon_at(state_dir, streaming(events)):
        into(state_dir / "ci.log", state_dir)

    assert (state_dir / "ci.log").read_text().count("All done.") == 1


def test_a_silent_agent_is_pointed_out(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From its first turn on an agent that says nothing is said to be silent, once."""
    monkeypatch.setattr(foreground, "SILENCE_S", 0.01)
    quiet = numbered({"type": "turn.started", "turn": 1}, {"type": "agent.session", "session": "s"})

    def subscribe(params: dict[str, Any], peer: Peer) -> dict[str, Any]:
        return streaming(quiet, then=lambda peer: timer.start())(params, peers.append(peer) or peer)

    peers: list[Peer] = []
    timer = threading.Timer(
        0.3, lambda: peers[0].notify("event.end", subscription="s1", reason="run_ended")
    )
    with (
        daemon_at(state_dir, subscribe),
        connect(str(state_dir / "control.sock")) as client,
    ):
        console = Console(Arguments(), {})
        foreground.Foreground(console, client, RUN, HANDLE, asking=False).stay()

    assert capsys.readouterr().err.startswith("  … no word from the agent yet\nk7q3x succeeded")
