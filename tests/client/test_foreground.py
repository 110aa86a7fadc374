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
    with daemon_at(state_dir, streaming(EVENTS)), path.open("wb") as log:
        subprocess.run(
            command("run", "fix it"),
            cwd=state_dir,
            env=environment(state_dir),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )

    assert path.read_text().count("All done.") == 1


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
