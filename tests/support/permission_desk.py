"""Questions of demo runs and whoever settles them, for tests of the permission broker."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daemon_process import DaemonProcess

Eventually = Callable[..., Any]
WRITE = "write x.txt text\nsay done"


def start(daemon: DaemonProcess, repo: Path, prompt: str = WRITE, **options: Any) -> str:
    with daemon.client() as client:
        return client.run.start(prompt, dir=str(repo), agent="demo", **options)["run"]


def ended(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    """The run's result."""
    with daemon.client() as client:
        assert client.run.wait([run], timeout_s=30)["met"] == "ended"
        return dict(client.run.result(run))


def resolved(daemon: DaemonProcess, run: str) -> list[dict[str, Any]]:
    return [e for e in daemon.events(run) if e["type"] == "permission.resolved"]


def passed(daemon: DaemonProcess, run: str) -> list[tuple[str, str]]:
    found = [e for e in daemon.events(run) if e["type"] == "permission.passed"]
    return [(e["by"]["resolver"], e["reason"]) for e in found]


def waiting(daemon: DaemonProcess, run: str) -> dict[str, Any]:
    """The question that the run waits for."""
    with daemon.client() as client:
        assert client.run.wait([run], until="attention", timeout_s=30)["met"] == "attention"
        [asked] = client.permission.list(run)["permissions"]
        return dict(asked)


def program(path: Path, text: str, mode: int = 0o700) -> Path:
    """A program of the user's."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def base_of(daemon: DaemonProcess) -> Path:
    """Where questions are exchanged as files."""
    directory = daemon.root / "desk"
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory / "q"


def request_of(base: Path, eventually: Eventually, other_than: Any = None) -> dict[str, Any]:
    """The question that lies there."""
    path = base.with_name("q.req")

    def shown() -> Any:
        if not path.exists():
            return None
        found = json.loads(path.read_text())
        return found if found["request"] != other_than else None

    return dict(eventually(shown))


def respond(base: Path, answer: Any) -> None:
    """Put an answer there whole."""
    beside = base.with_name("beside")
    beside.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    beside.rename(base.with_name("q.req.response"))


@contextmanager
def configured(state_dir: Path, text: str) -> Iterator[DaemonProcess]:
    """A daemon with this configuration."""
    config = state_dir / "config.toml"
    config.write_text(text)
    process = DaemonProcess(state_dir, {"COACHMAN_CONFIG": str(config)})
    process.start()
    try:
        yield process
    finally:
        process.tidy()
