"""A daemon whose every agent is the hostile one, for what each of its modes comes to."""

import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daemon_process import DaemonProcess, git, make_repository

PROGRAM = Path(__file__).parents[1] / "agents" / "hostile.py"
KEY = "sk-planted-0123456789-ABCDEF+xyz="
# By the names of its wires: how a run gets each.
WIRES: Mapping[str, Mapping[str, Any]] = {
    "acp": {"agent": "hostile"},
    "claude": {"agent": "claude"},
    "exec": {"agent": "codex"},
    # Where everything is allowed codex is not asked, and so not started as a server.
    "server": {"agent": "codex", "permissions": "deny"},
    "pi": {"agent": "pi"},
    "command": {"agent": "command"},
}
KEY_NAMES = {"hostile": "HOSTILE_KEY", "claude": "ANTHROPIC_API_KEY"}
CONFIGURATION = """
[capacity]
max_active = {places}
[agents.hostile]
adapter = "acp"
command = ["hostile", "acp"]
credentials = ["HOSTILE_KEY"]
"""
THEIRS = frozenset({"worktrees", "agents", "artifacts"})
BLOCK_BYTES = 1024 * 1024


class Recorder(threading.Thread):
    """A client that follows runs, and keeps each byte that it is sent."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self.heard = bytearray()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self.start()

    def follow(self, run: str) -> None:
        params = {"run": run}
        request = {"jsonrpc": "2.0", "id": run, "method": "event.subscribe", "params": params}
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    @property
    def ends(self) -> int:
        """How many of the followed runs were told to their end."""
        return self.heard.count(b'"event.end"')

    def run(self) -> None:
        while data := self._socket.recv(BLOCK_BYTES):
            self.heard += data

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self._socket.close()


class Stage:
    """The daemon, a repository, and what was started."""

    def __init__(self, root: Path, places: int = 8, more: str = "") -> None:
        self.root = root
        self.bin = root / "bin"
        self.bin.mkdir()
        self.daemon = DaemonProcess(root)
        for name in ("hostile", "claude", "codex", "pi"):
            shutil.copy(PROGRAM, self.bin / name)
        self.daemon.env["PATH"] = f"{self.bin}:{self.daemon.env['PATH']}"
        config = self.daemon.home / ".config" / "coachman" / "config.toml"
        config.parent.mkdir(parents=True)
        config.write_text(CONFIGURATION.format(places=places) + more)
        self.started = 0
        self.repo = make_repository(root / "repo")
        shutil.copy(PROGRAM, self.repo / "hostile.py")
        git(self.repo, "add", ".")
        git(self.repo, "commit", "-q", "-m", "hostile")

    def start(self, wire: str, mode: str, **options: Any) -> str:
        """Start a run of that mode; its id."""
        self.started += 1
        given = {**WIRES[wire], "task": f"t{self.started}", **options}
        name = KEY_NAMES.get(given["agent"], "OPENAI_API_KEY")
        if wire == "command":
            given["argv"] = ["/usr/bin/python3", "hostile.py", *mode.split()]
        else:
            given["env"] = {name: KEY}
        with self.daemon.client() as client:
            return client.run.start(mode, dir=str(self.repo), **given)["run"]  # type: ignore[no-any-return]

    def result(self, run: str, timeout_s: float = 180) -> dict[str, Any]:
        """The run's result, waited for."""
        with self.daemon.client() as client:
            waited = client.run.wait([run], timeout_s=timeout_s)
            assert waited["met"] == "ended", waited
            return client.run.result(run)  # type: ignore[no-any-return]

    def holding(self) -> Iterator[str]:
        """Records that hold the key. What the agents made themselves is theirs."""
        for directory, folders, files in os.walk(self.daemon.state):
            folders[:] = [name for name in folders if name not in THEIRS]
            for path in (Path(directory, name) for name in files):
                if path.is_file() and KEY.encode() in path.read_bytes():
                    yield str(path.relative_to(self.daemon.state))

    def git(self, *arguments: str) -> str:
        """The person's git, in the repository."""
        return git(self.repo, *arguments)

    def tidy(self) -> None:
        self.daemon.tidy()


@contextmanager
def staged(root: Path, places: int = 8, more: str = "") -> Iterator[Stage]:
    """A stage whose daemon runs; ``more`` stands in its configuration."""
    stage = Stage(root, places, more)
    stage.daemon.start()
    try:
        yield stage
    finally:
        stage.tidy()


def own_bytes(pid: int) -> int:
    """Memory of a process that belongs to no file: whoever shares those comes and goes."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("Anonymous:"))
