"""A real daemon in a state directory of its own, for tests through socket and command line."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import coachman
from coachmand.keeper.system import start_ticks
from coachmand.runs.keepers.starting import end_keeper, keeper_alive, read_exit
from forked_process import ForkedProcess, fork_daemon

READY_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
COMMAND_LIMIT_S = 180.0
BIN = Path(sys.executable).parent
GIT_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.invalid",
    "GIT_COMMITTER_NAME": "Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def git(directory: Path, *arguments: str) -> str:
    """Run the system's git; its stdout, stripped."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=directory,
        env={**os.environ, **GIT_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def make_repository(path: Path) -> Path:
    """A small repository with one commit."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    (path / "a.txt").write_text("first\n")
    (path / "sub").mkdir()
    (path / "sub" / "b.txt").write_text("second\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first")
    return path


class DaemonProcess:
    """One coachmand, started, killed and started again; ``env`` is added to its environment.

    It is forked off a process that has its modules, unless ``python`` is to execute it as its
    users do: where its own environment, memory or arguments are looked at.
    """

    def __init__(
        self, root: Path, env: Mapping[str, str] | None = None, python: str | None = None
    ) -> None:
        self.root = root
        self.python = python
        self.state = root / "state"
        self.home = root / "home"
        self.home.mkdir(exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "COACHMAN_STATE_DIR": str(self.state),
            "COACHMAN_AUTOSTART": "0",
            **(env or {}),
        }
        self.process: subprocess.Popen[bytes] | ForkedProcess | None = None

    @property
    def socket(self) -> str:
        return str(self.state / "control.sock")

    @property
    def log(self) -> str:
        """What the daemons of this directory logged."""
        return (self.root / "daemon.log").read_text(errors="replace")

    def start(self) -> "DaemonProcess":
        """Start and wait until it answers."""
        reader, writer = os.pipe()
        with (self.root / "daemon.log").open("ab") as log:
            self.process = self._new_process(writer, log.fileno())
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            ready, _, _ = select.select([pipe], [], [], READY_LIMIT_S)
            answer = json.loads(pipe.readline() or b"{}") if ready else {}
        if not answer.get("ready"):
            raise AssertionError(f"the daemon did not start: {answer}\n{self.log[-4000:]}")
        return self

    def _new_process(self, ready: int, log: int) -> subprocess.Popen[bytes] | ForkedProcess:
        """A new process that will be the daemon; it tells of its readiness on ``ready``."""
        if self.python is None:
            return fork_daemon(self.env, ready, log)
        return subprocess.Popen(
            [self.python, "-I", "-m", "coachmand", "--ready-fd", str(ready)],
            env=self.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(ready,),
            start_new_session=True,
        )

    def kill(self) -> None:
        """SIGKILL: it has no moment to tidy up."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_LIMIT_S)

    def stop(self) -> int:
        """SIGTERM, which detaches; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_LIMIT_S)

    def restart(self) -> None:
        """Kill it and start another one on the same state."""
        self.kill()
        self.start()

    def restart_in_place(self) -> None:
        """Let it come back as an upgrade does: connections wait, runs go on."""
        with self.client() as client:
            left = client.daemon.restart()["instance"]
            while client.daemon.status()["instance"] == left:
                time.sleep(0.01)

    def client(self) -> coachman.Client:
        """A new connection."""
        return coachman.connect(self.socket)

    def cli(
        self,
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[str]:
        """Run the installed command line to its end."""
        done = subprocess.run(
            [str(BIN / "coachman"), *arguments],
            cwd=cwd or self.root,
            env={**self.env, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def spawn(self, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        """Start the command line; the caller waits for it."""
        return subprocess.Popen(
            [str(BIN / "coachman"), *arguments],
            cwd=cwd or self.root,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def events(self, run: str) -> list[dict[str, Any]]:
        """A run's journal as it lies on disk."""
        lines = (self.state / "runs" / run / "events.ndjson").read_bytes().splitlines()
        return [json.loads(line) for line in lines]

    def keepers(self) -> list[int]:
        """The pids that keepers of this state directory wrote down and that still live."""
        found = []
        for path in self.state.glob("runs/*/attempts/**/keeper.json"):
            state = json.loads(path.read_bytes())
            if _is_keeper(state):
                found.append(state["pid"])
        return found

    def tidy(self) -> None:
        """End everything that was started here, keepers that are only just starting included."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        ends = time.monotonic() + STOP_LIMIT_S
        while (held := [*filter(keeper_alive, self._attempts())]) and time.monotonic() < ends:
            for attempt in held:
                end_keeper(attempt)
            time.sleep(0.02)
        for attempt in self._attempts():
            # A sandbox that was only just starting does not end with its keeper.
            if read_exit(attempt) is None:
                end_keeper(attempt)

    def _attempts(self) -> list[Path]:
        """Those that have, had or are about to have a keeper."""
        return [lock.parent for lock in self.state.glob("runs/*/attempts/**/keeper.lock")]


def _is_keeper(state: Mapping[str, Any]) -> bool:
    """Whether a keeper lives still: its number may be that of another one by now."""
    try:
        alive = b"keeper" in Path(f"/proc/{state['pid']}/cmdline").read_bytes()
        return alive and start_ticks(state["pid"]) == state["start_ticks"]
    except (OSError, KeyError):
        return False
