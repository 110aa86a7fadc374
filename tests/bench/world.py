"""Where a row measures: a daemon of its own, repositories, raw connections; all temporary."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Self

from attrs import frozen
from timing import until

from coachman_sandbox.environment import scrub
from coachmand.runs.keepers.starting import keeper_alive
from daemon_process import BIN, DaemonProcess, git, make_repository

HERE = Path(__file__).parent
CONNECTION_LIMIT_S = 60.0
MEMORY = "/dev/shm"
STRAYS_LIMIT_S = 10.0


class Connection:
    """A blocking client of one connection that adds next to nothing to what it measures."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(CONNECTION_LIMIT_S)
        self.socket.connect(path)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.socket.close()

    def line(self) -> bytes:
        """The next line, without its newline."""
        while (end := self._rest.find(b"\n")) < 0:
            chunk = self.socket.recv(65536)
            if not chunk:
                raise ConnectionError("the other side hung up")
            self._rest += chunk
        line, self._rest = self._rest[:end], self._rest[end + 1 :]
        return line

    def rest(self) -> bytes:
        """What was received beyond the last line that was asked for."""
        rest, self._rest = self._rest, b""
        return rest

    def round_trip(self, request: bytes) -> float:
        """Send one line and read one; the seconds in between."""
        begun = time.perf_counter()
        self.socket.sendall(request)
        self.line()
        return time.perf_counter() - begun

    def call(self, method: str, **params: Any) -> Any:
        """The result of one call; notifications before it are dropped."""
        self.socket.sendall(request(method, **params))
        while "id" not in (answer := json.loads(self.line())):
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def event(self) -> dict[str, Any]:
        """The next notification."""
        return json.loads(self.line())  # type: ignore[no-any-return]


def request(method: str, **params: Any) -> bytes:
    """One request as a line."""
    document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return json.dumps(document).encode() + b"\n"


class World:
    """A directory with a daemon and a small repository; its configuration can be added to."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo = make_repository(root / "repo")
        self.daemon = DaemonProcess(root, python=sys.executable)
        configured = self.daemon.home / ".config" / "coachman" / "config.toml"
        configured.parent.mkdir(parents=True)
        configured.write_text("")
        self.config = configured
        self.configuration = ""

    def start(self, max_active: int = 8) -> DaemonProcess:
        """Start the daemon; ``max_active`` runs at a time."""
        capacity = f"[capacity]\nmax_active = {max_active}\n"
        self.config.write_text(capacity + self.configuration)
        return self.daemon.start()

    def connect(self) -> Connection:
        """A new connection to the daemon."""
        return Connection(self.daemon.socket)

    def run(self, prompt: str, repo: Path | None = None, **options: Any) -> str:
        """Start a run, of the demo agent where no other is named; its id."""
        members = {"agent": "demo", "prompt": prompt, "dir": str(repo or self.repo), **options}
        with self.connect() as connection:
            return str(connection.call("run.start", **members)["run"])

    def wait(self, *runs: str, limit_s: float = 120.0, outcome: str = "succeeded") -> None:
        """Wait until all have ended, well where nothing else is said."""
        with self.connect() as connection:
            connection.socket.settimeout(limit_s + 5)
            met = connection.call("run.wait", runs=list(runs), timeout_s=limit_s)
        ended = {run["outcome"] for run in met["runs"]}
        if ended != {outcome}:
            raise RuntimeError(f"the runs ended {ended}: {self.daemon.log[-2000:]}")

    def command(self, *arguments: str) -> list[str]:
        """The argv of the installed command line."""
        return [str(BIN / "coachman"), *arguments]

    def keepers(self) -> list[int]:
        """The pids of the keepers of this state directory that live, by their locks."""
        found = []
        for path in self.daemon.state.glob("runs/*/attempts/**/keeper.json"):
            if keeper_alive(path.parent):
                found.append(int(json.loads(path.read_bytes())["pid"]))
        return found

    def close(self) -> None:
        """End everything that was started here, then remove it."""
        process = self.daemon.process
        if process is not None and process.poll() is None:
            self.daemon.kill()
        try:
            for pid in self.keepers():
                os.kill(pid, signal.SIGKILL)
            until(lambda: not self.keepers(), STRAYS_LIMIT_S)
        finally:
            shutil.rmtree(self.root, ignore_errors=True)


@frozen
class Bench:
    """How thoroughly to measure and where; hands out worlds."""

    quick: bool
    directory: str

    def scale(self, full: int, quick: int) -> int:
        """A count for this run of the bench."""
        return quick if self.quick else full

    @contextmanager
    def directory_of_its_own(self) -> Iterator[Path]:
        """A temporary directory whose path leaves room for sockets."""
        path = Path(tempfile.mkdtemp(prefix="cmb-", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def world(self, *, in_memory: bool = False) -> Iterator[World]:
        """A world whose daemon is not started yet; ``in_memory`` where there is such a place."""
        use_memory = in_memory and os.access(MEMORY, os.W_OK)
        directory = MEMORY if use_memory else self.directory
        world = World(Path(tempfile.mkdtemp(prefix="cmb-", dir=directory)))
        try:
            yield world
        finally:
            world.close()

    @contextmanager
    def process(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """An interpreter that has said that it is ready."""
        process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"{arguments} did not start")
            yield process
        finally:
            process.kill()
            process.communicate()

    def helper(
        self, script: str, *arguments: str
    ) -> AbstractContextManager["subprocess.Popen[bytes]"]:
        """A script of this directory as a process."""
        return self.process(str(HERE / script), *arguments)

    @contextmanager
    def echo(self) -> Iterator[Connection]:
        """A connection to a bare trio server that sends each line back."""
        with self.directory_of_its_own() as directory:
            path = str(directory / "echo.sock")
            with self.helper("echo_server.py", path), Connection(path) as connection:
                yield connection


def add_worktree(repo: Path, tree: Path) -> None:
    """What people do by hand."""
    git(repo, "worktree", "add", "--quiet", "--detach", str(tree))


def remove_worktree(repo: Path, tree: Path) -> None:
    """Remove a worktree and its entry, which git does not let several do at once."""
    shutil.rmtree(tree)
    shutil.rmtree(repo / ".git" / "worktrees" / tree.name)


def environment(daemon: DaemonProcess) -> Mapping[str, str]:
    """What the daemon keeps of its environment."""
    return scrub(daemon.env)
