"""The keeper: owns one sandboxed agent process and outlives the daemon that started it.

Run by path, `python -I -S keeper.py [lock descriptor]`, with one launch record (JSON) on standard
input. It answers one JSON line: `{"ready": true, "pid": N}` and status 0, or
`{"error": "cannot ..."}` and status 1. docs/keeper-protocol.md describes the record, the files
it writes and the protocol of its socket.

One file, one thread, and few imports on purpose: every parked run costs one of these processes.
"""

from __future__ import annotations

import binascii
import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time

# `socket` costs 5 ms and 0.4 MiB more than the extension that it wraps.
from _socket import AF_UNIX, SO_PEERCRED, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, socket
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

PROTOCOL_VERSION = 1
SOCKET_NAME = "keeper.sock"
LOCK_NAME = "keeper.lock"
STATE_NAME = "keeper.json"
EXIT_NAME = "exit.json"
LOG_NAME = "keeper.log"
STDIN_LOG_NAME = "stdin.log"
DEFAULT_LOCK_FD = 3

MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_LINE_BYTES = 64 * 1024
MAX_BODY_BYTES = 256 * 1024
MAX_PEERS = 8
LISTEN_BACKLOG = 64
# A peer with this much unread stops being read itself, so that its buffer stays bounded.
OUT_PAUSE_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
SEGMENT_BYTES = 64 * 1024 * 1024
ERROR_TAIL_BYTES = 1024

TERM_GRACE_S = 5.0
KILL_RETRY_S = 1.0
DRAIN_LIMIT_S = 5.0
LEAVE_LIMIT_S = 5.0
STORAGE_RETRY_S = 10.0
ACCEPT_RETRY_S = 1.0
MAX_MOMENT_S = 1e12
# Poll timeouts stand still while the machine sleeps, the wall deadline does not.
DEADLINE_CHECK_S = 30.0

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PROCESS_NAME = b"coachman-keeper"
DEADLY_SIGNALS = frozenset({signal.SIGTERM, signal.SIGKILL})
RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class LaunchError(Exception):
    """The keeper cannot start; the text says why."""


class Refused(Exception):  # noqa: N818 - the protocol's own word
    """One request is refused: a code for programs, a text for people, more reply members."""

    def __init__(self, code: str, text: str, **members: object) -> None:
        super().__init__(text)
        self.code = code
        self.members = members


class Garbage(Exception):  # noqa: N818 - says what arrived
    """A peer sent what cannot be a message; its connection ends."""


# The launch record


def field(record: dict[str, Any], name: str, kind: type | tuple[type, ...], *default: Any) -> Any:
    """One checked member of a record; without a default it must be there."""
    value = record.get(name, *default)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise LaunchError(f"cannot start the keeper: `{name}` is missing or of the wrong type")
    return value


def strings(record: dict[str, Any], name: str, *default: list[str]) -> list[str]:
    values = field(record, name, list, *default)
    if not all(isinstance(value, str) and "\0" not in value for value in values):
        raise LaunchError(f"cannot start the keeper: `{name}` must be a list of strings")
    return list(values)


def is_moment(value: object) -> bool:
    """Whether a value is null or seconds of the boot clock; JSON also brings NaN and 10**400."""
    if value is None:
        return True
    return isinstance(value, (int, float)) and value is not True and 0 <= value < MAX_MOMENT_S


class Launch:
    """A checked launch record; the members of the wire under the same names."""

    def __init__(self, record: dict[str, Any]) -> None:
        if record.get("version") != PROTOCOL_VERSION:
            raise LaunchError(f"cannot start the keeper: it speaks version {PROTOCOL_VERSION} only")
        self.directory: str = field(record, "directory", str)
        self.bwrap: str = field(record, "bwrap", str)
        self.args = strings(record, "args")
        self.command = strings(record, "command")
        self.mask = strings(record, "mask", [])
        self.stdin: str = field(record, "stdin", str, "pipe")
        self.boot_id: str = field(record, "boot_id", str)
        self.deadline = record.get("wall_deadline_boottime_s")
        self.term_grace_s: float = field(record, "term_grace_s", (int, float), TERM_GRACE_S)
        self.segment_bytes: int = field(record, "segment_bytes", int, SEGMENT_BYTES)
        self.umask: int = field(record, "umask", int, 0o022)
        self.data = decode_data(strings(record, "data", []))
        self._check()

    def _check(self) -> None:
        problems = {
            "`directory` and `bwrap` must be absolute paths": not (
                os.path.isabs(self.directory) and os.path.isabs(self.bwrap)
            ),
            "`command` is empty": not self.command,
            "`stdin` must be `pipe` or `null`": self.stdin not in {"pipe", "null"},
            "`segment_bytes` must be positive": self.segment_bytes < 1,
            "`term_grace_s` must not be negative": not 0 <= self.term_grace_s < MAX_MOMENT_S,
            "`wall_deadline_boottime_s` is not a moment": not is_moment(self.deadline),
            # Without its own PID namespace a tree of processes could not be killed whole.
            "`args` must unshare the PID namespace and keep bwrap's own init": (
                not {"--unshare-pid", "--unshare-all"} & set(self.args) or "--as-pid-1" in self.args
            ),
            "the record was made before the last boot": self.boot_id != boot_id(),
        }
        for text, wrong in problems.items():
            if wrong:
                raise LaunchError(f"cannot start the keeper: {text}")


def decode_data(texts: list[str]) -> list[bytes]:
    try:
        return [binascii.a2b_base64(text.encode("ascii")) for text in texts]
    except (UnicodeError, binascii.Error) as error:
        raise LaunchError(f"cannot start the keeper: `data` is not base64: {error}") from None


def parse_launch(raw: bytes) -> Launch:
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise LaunchError(f"cannot start the keeper: the record is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise LaunchError("cannot start the keeper: the record is not an object")
    return Launch(record)


# The system's facts


def boot_id() -> str:
    with open(BOOT_ID_PATH, encoding="ascii") as file:
        return file.read().strip()


def boottime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def start_ticks(pid: int) -> int:
    """A process's start time in clock ticks since boot; raises OSError when it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name may hold anything, parentheses and spaces too.
        return int(file.read().rpartition(b")")[2].split()[19])


def is_inner_init(pid: int) -> bool:
    """Whether a process is number 1 of a PID namespace below ours; OSError when it is gone."""
    with open(f"/proc/{pid}/status", "rb") as file:
        numbers = next((line.split()[1:] for line in file if line.startswith(b"NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == b"1"


def set_process() -> None:
    """Take a name, and keep the user's other processes out of the memory: it holds secrets."""
    import ctypes  # noqa: PLC0415 - most of a millisecond, after the record was checked

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NAME, PROCESS_NAME, 0, 0, 0)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise LaunchError("cannot start the keeper: PR_SET_DUMPABLE was refused")


def read_all(fd: int, limit: int = MAX_RECORD_BYTES) -> bytes:
    content = bytearray()
    while chunk := os.read(fd, CHUNK_BYTES):
        content += chunk
        if len(content) > limit:
            raise LaunchError(f"cannot start the keeper: the record exceeds {limit} bytes")
    return bytes(content)


def read_some(fd: int) -> bytes | None:
    """One chunk; empty at the end, None when nothing is there yet."""
    try:
        return os.read(fd, CHUNK_BYTES)
    except BlockingIOError:
        return None


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def replace_file(directory: int, name: str, content: bytes, *, durable: bool) -> None:
    """Write a file of the attempt so that readers see the old or the new one, whole."""
    temporary = f".{name}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    fd = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        write_all(fd, content)
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    if durable:
        os.fsync(directory)


def log(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{int(time.time())} {text}\n".encode())


class Loop:
    """A level-triggered epoll loop; handlers must tolerate being called for nothing."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[int, Callable[[], None]]] = {}

    def watch(self, fd: int, mask: int, handler: Callable[[], None]) -> None:
        """Call the handler when fd has one of these events; 0 stops watching it."""
        before = self._watched.get(fd, (0, handler))[0]
        if mask:
            self._watched[fd] = (mask, handler)
        else:
            self._watched.pop(fd, None)
        if not before and mask:
            self._epoll.register(fd, mask)
        elif before and not mask:
            self._epoll.unregister(fd)
        elif before != mask:
            self._epoll.modify(fd, mask)

    def close(self, fd: int) -> None:
        """Stop watching and close; an epoll forgets only what no process holds open."""
        if fd >= 0:
            self.watch(fd, 0, lambda: None)
            os.close(fd)

    def turn(self, timeout_s: float | None) -> None:
        for fd, _ in self._epoll.poll(timeout_s):
            if fd in self._watched:
                self._watched[fd][1]()


class Stream:
    """One output of the agent: a pipe, and the segments that its bytes go to, undecoded.

    `size` counts the bytes that are in segments. At most one chunk is in memory, `pending`,
    and it stays there while the disk refuses it.
    """

    def __init__(self, name: str, pipe: int, directory: int, segment_bytes: int) -> None:
        self.name = name
        self.pipe = pipe
        self.size = 0
        self.pending = b""
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segment = -1
        self._start = 0

    def pump(self) -> bool:
        """Move one chunk to the disk; False at the end of the pipe. Raises OSError (storage)."""
        if not self.pending:
            chunk = read_some(self.pipe)
            if not chunk:
                return chunk is None
            self.pending = chunk
        self.store()
        return True

    def store(self) -> None:
        while self.pending:
            if self._segment < 0 or self.size - self._start == self._segment_bytes:
                self._next_segment()
            room = self._start + self._segment_bytes - self.size
            written = os.write(self._segment, self.pending[:room])
            self.size += written
            self.pending = self.pending[written:]

    def _next_segment(self) -> None:
        if self._segment >= 0:
            os.close(self._segment)
            self._segment = -1
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        self._segment = os.open(f"{self.name}.{self.size}", flags, 0o600, dir_fd=self._directory)
        self._start = self.size

    def sync(self) -> None:
        """Make every segment durable; the kernel wrote most of the old ones back already."""
        for start in range(0, self.size, self._segment_bytes):
            try:
                fd = os.open(f"{self.name}.{start}", os.O_RDONLY, dir_fd=self._directory)
            except FileNotFoundError:
                # Somebody removed it: that is no reason to stay for ever.
                continue
            try:
                os.fdatasync(fd)
            finally:
                os.close(fd)

    def tail(self) -> bytes:
        if self._segment < 0:
            return b""
        length = self.size - self._start
        return os.pread(self._segment, ERROR_TAIL_BYTES, max(0, length - ERROR_TAIL_BYTES))


class Stdin:
    """The agent's standard input: what was taken is in a log, and fed to the pipe from there.

    Offsets count from the run's first byte. `pipe` is -1 when the agent can be fed no more.
    """

    def __init__(self, pipe: int, directory: int) -> None:
        self.pipe = pipe
        self.taken = 0
        self.fed = 0
        self.closing = False
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        self._log = os.open(STDIN_LOG_NAME, flags, 0o600, dir_fd=directory)

    def take(self, offset: int, content: bytes) -> int:
        """Append what is new of bytes at an offset; the count taken in all. Raises Refused."""
        if offset > self.taken:
            raise Refused("gap", "cannot write: earlier bytes are missing", taken=self.taken)
        fresh = content[self.taken - offset :]
        if fresh and self.closing:
            raise Refused("stdin_closed", "cannot write: stdin was closed", taken=self.taken)
        try:
            while fresh:
                written = os.write(self._log, fresh)
                self.taken += written
                fresh = fresh[written:]
        except OSError as error:
            text = f"cannot write: {STDIN_LOG_NAME}: {error.strerror}"
            raise Refused("storage", text, taken=self.taken) from None
        return self.taken

    @property
    def hungry(self) -> bool:
        """Whether the pipe waits for bytes or for its end."""
        return self.pipe >= 0 and (self.fed < self.taken or self.closing)

    def feed(self) -> bool:
        """Feed one chunk; False when the pipe is to be closed."""
        if self.fed < self.taken:
            try:
                self.fed += os.write(self.pipe, os.pread(self._log, CHUNK_BYTES, self.fed))
            except BlockingIOError:
                return True
            except OSError as error:
                if not isinstance(error, BrokenPipeError):
                    log(f"cannot feed stdin: {error}")
                return False
        return self.fed < self.taken or not self.closing

    def sync(self) -> None:
        os.fdatasync(self._log)


class Sandbox:
    """The bubblewrap process, the init of its PID namespace, and how they ended."""

    def __init__(self, pid: int, status_pipe: int, gate: int) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.status_pipe = status_pipe
        self._gate = gate
        self.wait_status: int | None = None
        self.exit_code: int | None = None
        self.init_pid: int | None = None
        self.init_start_ticks: int | None = None
        self.init_pidfd = -1
        self._unparsed = b""
        self._doomed = False

    def read_status(self) -> bool:
        """Take in bubblewrap's reports; False at their end."""
        chunk = read_some(self.status_pipe)
        if chunk is None:
            return True
        *lines, self._unparsed = (self._unparsed + chunk).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if "child-pid" in report:
                self._adopt_init(report["child-pid"])
            self.exit_code = report.get("exit-code", self.exit_code)
        return bool(chunk)

    def _adopt_init(self, pid: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return
        try:
            # The number may belong to another process by now.
            genuine, ticks = is_inner_init(pid), start_ticks(pid)
        except OSError:
            genuine = False
        if not genuine:
            os.close(pidfd)
            return
        self.init_pid, self.init_start_ticks, self.init_pidfd = pid, ticks, pidfd
        if self._doomed:
            self.kill_tree()

    def let_go(self) -> None:
        """Let the init start the agent, once its number is on record."""
        if not self._doomed:
            os.eventfd_write(self._gate, 1)

    def reap(self) -> bool:
        """Whether bubblewrap itself ended."""
        if self.wait_status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.wait_status = status
        return self.wait_status is not None

    def kill_tree(self) -> bool:
        """End every process of the sandbox: they cannot outlive their namespace's init.

        False while bubblewrap has not named the init: killing bubblewrap then could leave an
        init behind, so that only a second call does it.
        """
        pidfd = self.init_pidfd if self.init_pidfd >= 0 else self.pidfd
        doomed, self._doomed = self._doomed, True
        if self.init_pidfd >= 0 or doomed:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        return self.init_pidfd >= 0

    def tree_is_empty(self) -> bool:
        # An init ends after the last process of its namespace, so that its end says it all.
        return self.init_pidfd < 0 or bool(select.select([self.init_pidfd], [], [], 0)[0])

    def signal_agent(self, number: int) -> None:
        """Signal the first child of the namespace's init. Raises Refused when there is none."""
        pid = self._agent_pid()
        if pid is not None:
            try:
                pidfd = os.pidfd_open(pid)
            except OSError:
                pidfd = -1
            try:
                # Still the agent after opening: then the descriptor is the agent's.
                if pidfd >= 0 and self._agent_pid() == pid:
                    signal.pidfd_send_signal(pidfd, number)
                    return
            except ProcessLookupError:
                pass
            finally:
                if pidfd >= 0:
                    os.close(pidfd)
        raise Refused("no_agent", "cannot signal the agent: it is not running")

    def _agent_pid(self) -> int | None:
        if self.init_pidfd < 0 or self.tree_is_empty():
            return None
        try:
            with open(f"/proc/{self.init_pid}/task/{self.init_pid}/children", "rb") as file:
                children = file.read().split()
        except OSError:
            return None
        # Orphans are appended behind it.
        return int(children[0]) if children else None


def memory_file(name: str, content: bytes) -> int:
    """A sealed in-memory file at its start, to be inherited: no path, no copy on disk."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    write_all(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def sandbox_arguments(args: list[str], data: list[int]) -> bytes:
    """The NUL-separated arguments, with the tokens replaced by descriptor numbers."""
    numbers = {f"{{fd:{index}}}": str(fd) for index, fd in enumerate(data)}
    return b"".join(os.fsencode(numbers.get(arg, arg)) + b"\0" for arg in args)


def spawn(launch: Launch, stdio: tuple[int, int, int]) -> Sandbox:
    """Start bubblewrap on three descriptors. Raises OSError.

    It belongs to the calling thread, the only one: its death signal follows a thread, not a
    process. In a session of its own no `kill(0)` inside reaches the keeper.

    The init arms its death signal last, so that a keeper killed during the set-up leaves it
    behind. It therefore waits at a gate until its number is in keeper.json. An event counter,
    because a pipe would open the gate when the keeper dies.
    """
    data = [memory_file(f"data{index}", content) for index, content in enumerate(launch.data)]
    arguments = memory_file("args", sandbox_arguments(launch.args, data))
    status_read, status_write = os.pipe()
    gate = os.eventfd(0, os.EFD_CLOEXEC)
    inherited = [status_write, arguments, *data]
    try:
        for fd in (*inherited, gate):
            os.set_inheritable(fd, True)
        head = [launch.bwrap, "--die-with-parent", "--block-fd", str(gate)]
        pid = os.posix_spawn(
            launch.bwrap,
            [
                *head,
                *("--json-status-fd", str(status_write), "--args", str(arguments)),
                *("--", *launch.command),
            ],
            {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)],
            setsid=True,
            setsigmask=(),
            setsigdef=RESET_SIGNALS,
        )
    finally:
        for fd in (*inherited, *stdio):
            os.close(fd)
    os.set_blocking(status_read, False)
    return Sandbox(pid, status_read, gate)


class Peer:
    """One connection: bytes in, bytes out, and what the attached one was told last."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.out = bytearray()
        self.told: tuple[int, int] | None = None
        self._received = bytearray()
        self._head: dict[str, Any] | None = None

    def receive(self) -> bool:
        """Take in what arrived; False at the connection's end."""
        try:
            chunk = read_some(self.fd)
        except OSError:
            return False
        self._received += chunk or b""
        return chunk is None or bool(chunk)

    def next_message(self) -> tuple[dict[str, Any], bytes] | None:
        """The next whole message and its bytes. Raises Garbage."""
        if self._head is None:
            end = self._received.find(b"\n")
            if (len(self._received) if end < 0 else end) > MAX_LINE_BYTES:
                raise Garbage(f"a line exceeds {MAX_LINE_BYTES} bytes")
            if end < 0:
                return None
            self._head = parse_head(bytes(self._received[:end]))
            del self._received[: end + 1]
        size = self._head.get("size", 0)
        if len(self._received) < size:
            return None
        message, self._head = self._head, None
        body = bytes(self._received[:size])
        del self._received[:size]
        return message, body

    def send(self, message: dict[str, Any]) -> None:
        self.out += encode(message)

    def flush(self) -> bool:
        """Write what the peer takes now; False when it is gone."""
        try:
            while self.out:
                del self.out[: os.write(self.fd, self.out[:CHUNK_BYTES])]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


def parse_head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        raise Garbage("a line is not JSON") from None
    if not isinstance(head, dict) or not isinstance(head.get("op"), str):
        raise Garbage("a message is not an object with an `op`")
    if not isinstance(head.get("id"), (int, str, type(None))):
        raise Garbage("an `id` is neither a number nor a string")
    size = head.get("size", 0)
    if not isinstance(size, int) or not 0 <= size <= MAX_BODY_BYTES:
        raise Garbage(f"`size` is not a number from 0 to {MAX_BODY_BYTES}")
    return head


def integer(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused("bad_request", f"cannot {message['op']}: `{name}` must be a whole number")
    return value


class Keeper:
    """The loop that ties the sandbox, its streams, the deadline and the peers together."""

    def __init__(self, launch: Launch, directory: int) -> None:
        self.directory = directory
        self.mask = launch.mask
        self.deadline = launch.deadline
        self.term_grace_s = launch.term_grace_s
        self.generation = 0
        self.held = False
        self.storage_error: str | None = None
        self.cause: str | None = None
        self.signals_sent: set[int] = set()
        self.exit: dict[str, Any] | None = None
        self.peers: list[Peer] = []
        self.attached: Peer | None = None
        # Moments of the monotonic clock; None while there is nothing to wait for.
        self.kill_at: float | None = None
        self.drain_until: float | None = None
        self.retry_at: float | None = None
        self.accept_at: float | None = None
        self.leave_by: float | None = None
        self.loop = Loop()
        self.started_s = boottime_s()
        self.identity = {
            "version": PROTOCOL_VERSION,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": launch.boot_id,
        }
        self._listen()
        self.sandbox: Sandbox | None = None
        self._save_state()
        self._start(launch)
        self._handle_signals()

    def _listen(self) -> None:
        self.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK)
        before = os.umask(0o177)
        # Through the descriptor, because a socket's address holds 107 bytes of path.
        self.listener.bind(f"/proc/self/fd/{self.directory}/{SOCKET_NAME}")
        os.umask(before)
        self.listener.listen(LISTEN_BACKLOG)
        self.loop.watch(self.listener.fileno(), select.EPOLLIN, self._accept)

    def _start(self, launch: Launch) -> None:
        stdin_read, stdin_write = os.pipe()
        if launch.stdin == "null":
            os.close(stdin_read)
            os.close(stdin_write)
            stdin_read, stdin_write = os.open("/dev/null", os.O_RDONLY), -1
        stdout_read, stdout_write = os.pipe()
        stderr_read, stderr_write = os.pipe()
        for fd in (stdin_write, stdout_read, stderr_read):
            if fd >= 0:
                os.set_blocking(fd, False)
        self.stdin_kind = launch.stdin
        self.stdin = Stdin(stdin_write, self.directory)
        self.streams = [
            Stream(name, pipe, self.directory, launch.segment_bytes)
            for name, pipe in (("stdout", stdout_read), ("stderr", stderr_read))
        ]
        sandbox = spawn(launch, (stdin_read, stdout_write, stderr_write))
        self.sandbox = sandbox
        self.loop.watch(sandbox.pidfd, select.EPOLLIN, self._sandbox_ended)
        self.loop.watch(sandbox.status_pipe, select.EPOLLIN, self._sandbox_reported)
        self._watch_streams()

    def _handle_signals(self) -> None:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        # Its number arrives in the pipe, and is acted upon in the loop's own time.
        signal.signal(signal.SIGTERM, lambda *_: None)
        self.loop.watch(read, select.EPOLLIN, partial(self._signalled, read))

    def _signalled(self, wakeups: int) -> None:
        if signal.SIGTERM in (read_some(wakeups) or b""):
            self._stop("keeper")

    def run(self) -> None:
        """Serve until the sandbox ended and its end is on disk and told."""
        while not self._may_leave():
            self.loop.turn(self._timeout_s())
            self._expire(time.monotonic())
            self._announce_output()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET_NAME, dir_fd=self.directory)

    def _may_leave(self) -> bool:
        if self.exit is None or self.leave_by is None:
            return False
        unread = self.attached is not None and bool(self.attached.out)
        return not unread or time.monotonic() >= self.leave_by

    # Time

    def _timeout_s(self) -> float | None:
        waits = [
            moment - time.monotonic()
            for moment in (
                self.kill_at, self.drain_until, self.retry_at, self.accept_at, self.leave_by
            )
            if moment is not None
        ]  # fmt: skip
        if self.deadline is not None and self._unstopped:
            waits += [self.deadline - boottime_s(), DEADLINE_CHECK_S]
        return max(0.0, min(waits)) if waits else None

    def _expire(self, now: float) -> None:
        if self.deadline is not None and self._unstopped and boottime_s() >= self.deadline:
            self._stop("deadline")
        if self.kill_at is not None and now >= self.kill_at:
            self.kill_at = None
            self._kill()
        if self.retry_at is not None and now >= self.retry_at:
            self._retry_storage()
        if self.accept_at is not None and now >= self.accept_at:
            self.accept_at = None
            self.loop.watch(self.listener.fileno(), select.EPOLLIN, self._accept)
        if self.exit is None:
            self._conclude_when_empty(now)

    def _stop(self, cause: str) -> None:
        """Ask the agent to end, and kill its tree when it has not after the grace."""
        if not self._unstopped:
            return
        self.cause = cause
        self.kill_at = time.monotonic() + self.term_grace_s
        try:
            self._box.signal_agent(signal.SIGTERM)
        except Refused:
            self._kill()

    @property
    def _unstopped(self) -> bool:
        return self.cause is None and self._box.wait_status is None

    def _kill(self) -> None:
        if not self._box.kill_tree() and self._box.wait_status is None:
            self.kill_at = time.monotonic() + KILL_RETRY_S

    # The sandbox and its end

    @property
    def _box(self) -> Sandbox:
        assert self.sandbox is not None
        return self.sandbox

    def _sandbox_reported(self) -> None:
        box = self._box
        known = box.init_pid
        if not box.read_status():
            self.loop.close(box.status_pipe)
            box.status_pipe = -1
        if box.init_pid != known:
            self.loop.watch(box.init_pidfd, select.EPOLLIN, self._tree_ended)
            self._update_state()
            box.let_go()

    def _sandbox_ended(self) -> None:
        box = self._box
        if box.reap():
            self.loop.watch(box.pidfd, 0, self._sandbox_ended)
            if box.status_pipe >= 0:
                # Its last report arrived before its end did.
                self._sandbox_reported()
            box.kill_tree()

    def _tree_ended(self) -> None:
        self.loop.watch(self._box.init_pidfd, 0, self._tree_ended)

    def _conclude_when_empty(self, now: float) -> None:
        if self._box.wait_status is None or not self._box.tree_is_empty():
            return
        if self.drain_until is None:
            self.drain_until = now + DRAIN_LIMIT_S
            self._watch_streams()
        if self.storage_error is not None:
            # What is in the pipes stays there until the disk takes it.
            self.drain_until = now + DRAIN_LIMIT_S
            return
        if all(stream.pipe < 0 for stream in self.streams) or now >= self.drain_until:
            self._conclude()

    def _conclude(self) -> None:
        record = self._exit_record()
        try:
            for stream in self.streams:
                stream.sync()
            self.stdin.sync()
            replace_file(self.directory, EXIT_NAME, encode(record), durable=True)
        except OSError as error:
            # With the directory deleted there is nowhere to write and nobody to tell.
            if os.fstat(self.directory).st_nlink:
                self._storage_failed(EXIT_NAME, error)
                return
        self.exit = record
        self.drain_until = None
        self.leave_by = time.monotonic() + LEAVE_LIMIT_S
        if self.attached is not None:
            self._announce_output()
            self._send(self.attached, {"event": "exit", **record})

    def _exit_record(self) -> dict[str, Any]:
        box = self._box
        code, number = box.exit_code, None
        if code is not None and 128 < code < 128 + signal.NSIG:
            number = code - 128
        elif code is None and box.wait_status is not None and os.WIFSIGNALED(box.wait_status):
            number = os.WTERMSIG(box.wait_status)
        record = {
            "version": PROTOCOL_VERSION,
            "exit_code": code,
            "signal": number,
            "ended_by": self._ended_by(number),
            "stdout_bytes": self.streams[0].size,
            "stderr_bytes": self.streams[1].size,
            "stdin_bytes": self.stdin.taken,
            "started_boottime_s": self.started_s,
            "ended_boottime_s": boottime_s(),
            "ended_at_ms": time.time_ns() // 1_000_000,
            "tree_empty": True,
        }
        if code is None and number is None:
            record["error"] = self._spawn_error()
        return record

    def _ended_by(self, number: int | None) -> str:
        if self.cause is not None:
            return self.cause
        if self.signals_sent & DEADLY_SIGNALS or number in self.signals_sent:
            return "signal"
        return "agent"

    def _spawn_error(self) -> str:
        text = self.streams[1].tail().decode("utf-8", "replace").strip()
        for secret in self.mask:
            text = text.replace(secret, "***") if secret else text
        return f"cannot start the sandbox: {text or 'bwrap gave no reason'}"

    # Streams and storage

    def _watch_streams(self) -> None:
        # After the end at most a pipe's worth is left, which a hold need not keep out.
        wanted = self.storage_error is None and (not self.held or self.drain_until is not None)
        for stream in self.streams:
            if stream.pipe >= 0:
                mask = select.EPOLLIN if wanted else 0
                self.loop.watch(stream.pipe, mask, partial(self._pump, stream))

    def _pump(self, stream: Stream) -> None:
        try:
            alive = stream.pump()
        except OSError as error:
            self._storage_failed(stream.name, error)
            return
        if not alive:
            self.loop.close(stream.pipe)
            stream.pipe = -1

    def _storage_failed(self, name: str, error: OSError) -> None:
        text = f"cannot store {name}: {error.strerror}"
        waits = self.held and self.drain_until is None
        self.retry_at = None if waits else time.monotonic() + STORAGE_RETRY_S
        if text != self.storage_error:
            log(text)
            self.storage_error = text
            self._announce_storage()
            self._watch_streams()

    def _retry_storage(self) -> None:
        self.retry_at = None
        if self.storage_error is not None:
            try:
                for stream in self.streams:
                    stream.store()
            except OSError as error:
                self._storage_failed(stream.name, error)
                return
            self.storage_error = None
            self._announce_storage()
        self._watch_streams()

    def _announce_storage(self) -> None:
        if self.attached is not None:
            self._send(self.attached, {"event": "storage", "error": self.storage_error})

    def _feed(self) -> None:
        stdin = self.stdin
        if stdin.pipe >= 0 and not stdin.feed():
            self.loop.close(stdin.pipe)
            stdin.pipe = -1
        self._watch_stdin()

    def _watch_stdin(self) -> None:
        if self.stdin.pipe >= 0:
            # Unwatched when idle: a pipe without a reader is ready for ever.
            mask = select.EPOLLOUT if self.stdin.hungry else 0
            self.loop.watch(self.stdin.pipe, mask, self._feed)

    def _save_state(self) -> None:
        state = {**self.identity, "generation": self.generation}
        if self.sandbox is not None:
            state["sandbox"] = self._sandbox_ids()
        replace_file(self.directory, STATE_NAME, encode(state), durable=False)

    def _update_state(self) -> None:
        try:
            self._save_state()
        except OSError as error:
            # This process is what fences and kills; the file only tells who comes after it.
            log(f"cannot store {STATE_NAME}: {error}")

    def _sandbox_ids(self) -> dict[str, int | None]:
        box = self._box
        ids = {"pid": box.pid, "init_pid": box.init_pid, "init_start_ticks": box.init_start_ticks}
        return {name: value for name, value in ids.items() if value is not None}

    # Peers

    def _accept(self) -> None:
        try:
            fd, _ = self.listener._accept()  # type: ignore[attr-defined]
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            log(f"cannot accept: {error}")
            self.loop.watch(self.listener.fileno(), 0, self._accept)
            self.accept_at = time.monotonic() + ACCEPT_RETRY_S
            return
        connection = socket(fileno=fd)
        uid = int.from_bytes(connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)[4:8], sys.byteorder)
        peer = Peer(connection.detach())
        os.set_blocking(peer.fd, False)
        self.peers.append(peer)
        if uid != os.getuid():
            self._drop(peer)
            return
        idle = [other for other in self.peers if other is not self.attached]
        if len(self.peers) > MAX_PEERS:
            self._drop(idle[0])
        self._watch_peer(peer)

    def _watch_peer(self, peer: Peer) -> None:
        if peer.fd >= 0:
            mask = select.EPOLLOUT if peer.out else 0
            if len(peer.out) < OUT_PAUSE_BYTES:
                mask |= select.EPOLLIN
            self.loop.watch(peer.fd, mask, partial(self._serve, peer))

    def _serve(self, peer: Peer) -> None:
        try:
            alive = peer.flush()
            if alive and len(peer.out) < OUT_PAUSE_BYTES:
                alive = peer.receive()
            self._answer_all(peer)
        except Garbage as error:
            text = f"cannot read the message: {error}"
            peer.send({"id": None, "ok": False, "error": text, "code": "bad_message"})
            alive = False
        except Exception as error:  # a fault in an answer costs one connection, not the run
            log(f"cannot answer: {error!r}")
            alive = False
        if not (peer.flush() and alive):
            self._drop(peer)
        self._watch_peer(peer)

    def _answer_all(self, peer: Peer) -> None:
        while peer.fd >= 0 and len(peer.out) < OUT_PAUSE_BYTES and (pair := peer.next_message()):
            message, body = pair
            reply = {"id": message.get("id"), "ok": True}
            try:
                reply.update(self._perform(peer, message, body))
            except Refused as refused:
                reply.update(ok=False, error=str(refused), code=refused.code, **refused.members)
            peer.send(reply)

    def _send(self, peer: Peer, message: dict[str, Any]) -> None:
        peer.send(message)
        if not peer.flush():
            self._drop(peer)
        self._watch_peer(peer)

    def _drop(self, peer: Peer) -> None:
        if peer is self.attached:
            self.attached = None
        if peer in self.peers:
            self.peers.remove(peer)
            self.loop.close(peer.fd)
            peer.fd = -1

    def _announce_output(self) -> None:
        peer = self.attached
        if peer is None or peer.out:
            return
        sizes = (self.streams[0].size, self.streams[1].size)
        if sizes != peer.told:
            peer.told = sizes
            self._send(peer, {"event": "output", "stdout": sizes[0], "stderr": sizes[1]})

    # Operations

    def _perform(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        name = message["op"]
        operation = OPERATIONS.get(name)
        if operation is None:
            raise Refused("unknown_op", "cannot do that: no such operation")
        if name not in UNATTACHED and peer is not self.attached:
            raise Refused("not_attached", f"cannot {name}: attach first")
        return operation(self, peer, message, body)

    def _hello(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        if message.get("version") != PROTOCOL_VERSION:
            raise Refused("version", f"cannot talk: version {PROTOCOL_VERSION} is spoken here")
        return {"version": PROTOCOL_VERSION, "pid": os.getpid()}

    def _attach(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        generation = integer(message, "generation")
        if generation < self.generation:
            text = f"cannot attach: generation {self.generation} was here already"
            raise Refused("stale_generation", text, generation=self.generation)
        previous, self.attached = self.attached, peer
        if previous is not None and previous is not peer:
            self._send(previous, {"event": "evicted"})
            self._drop(previous)
        if generation != self.generation:
            self.generation = generation
            self._update_state()
        peer.told = (self.streams[0].size, self.streams[1].size)
        return {**self._status(), "mask": self.mask}

    def _write(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        if self.stdin_kind == "null":
            raise Refused("no_stdin", "cannot write: this agent was started without stdin")
        taken = self.stdin.take(integer(message, "offset"), body)
        self._feed_now()
        return {"taken": taken}

    def _close_stdin(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        self.stdin.closing = True
        self._feed_now()
        return {"taken": self.stdin.taken}

    def _feed_now(self) -> None:
        if self.stdin.hungry:
            self._feed()

    def _signal(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        target = message.get("target")
        if self._box.wait_status is not None:
            raise Refused("ended", "cannot signal: the sandbox has ended")
        if target == "tree":
            self._kill()
            self.signals_sent.add(signal.SIGKILL)
            return {}
        number = integer(message, "signal")
        if target != "agent" or not 0 < number < signal.NSIG:
            raise Refused("bad_request", "cannot signal: name `agent` or `tree`, and a signal")
        self._box.signal_agent(number)
        self.signals_sent.add(number)
        return {}

    def _set_deadline(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        moment = message.get("boottime_s")
        if not is_moment(moment):
            raise Refused("bad_request", "cannot set the deadline: `boottime_s` is not a moment")
        if self.cause is not None:
            raise Refused("ended", "cannot set the deadline: the agent is being stopped")
        self.deadline = moment
        return {}

    def _hold(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        self.held = True
        self.retry_at = None
        self._watch_streams()
        return {}

    def _release(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        self.held = False
        self._retry_storage()
        return {"storage_error": self.storage_error}

    def _report(self, peer: Peer, message: dict[str, Any], body: bytes) -> dict[str, Any]:
        return self._status()

    def _status(self) -> dict[str, Any]:
        status = {
            "stdout": self.streams[0].size,
            "stderr": self.streams[1].size,
            "stdin_taken": self.stdin.taken,
            "stdin_fed": self.stdin.fed,
            "stdin_closed": self.stdin.pipe < 0,
            "held": self.held,
            "storage_error": self.storage_error,
            "running": self._box.wait_status is None,
            "deadline_boottime_s": self.deadline,
            "generation": self.generation,
            "sandbox": self._sandbox_ids(),
        }
        return status if self.exit is None else {**status, "exit": self.exit}


if TYPE_CHECKING:
    Operation = Callable[[Keeper, Peer, dict[str, Any], bytes], dict[str, Any]]

UNATTACHED = frozenset({"hello", "attach"})
OPERATIONS: dict[str, Operation] = {
    "hello": Keeper._hello,
    "attach": Keeper._attach,
    "write": Keeper._write,
    "close_stdin": Keeper._close_stdin,
    "signal": Keeper._signal,
    "set_deadline": Keeper._set_deadline,
    "hold": Keeper._hold,
    "release": Keeper._release,
    "status": Keeper._report,
}


# Starting


def check_lock(fd: int, directory: int) -> None:
    """The lock is the liveness truth: it must be this attempt's, and held through this file."""
    try:
        ours, named = os.fstat(fd), os.stat(LOCK_NAME, dir_fd=directory)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise LaunchError(f"cannot start the keeper: {LOCK_NAME}: {error}") from None
    if not os.path.samestat(ours, named):
        raise LaunchError(f"cannot start the keeper: descriptor {fd} is not {LOCK_NAME}")
    os.set_inheritable(fd, False)


def open_attempt(launch: Launch) -> int:
    try:
        directory = os.open(launch.directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LaunchError(f"cannot start the keeper: {error}") from None
    if {STATE_NAME, EXIT_NAME} & set(os.listdir(directory)):
        raise LaunchError("cannot start the keeper: this attempt had one already")
    return directory


def detach_stdio(directory: int) -> None:
    """Let go of the daemon's pipes, so that it sees their end."""
    null = os.open("/dev/null", os.O_RDWR)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    report = os.open(LOG_NAME, flags, 0o600, dir_fd=directory)
    for source, number in ((null, 0), (null, 1), (report, 2)):
        os.dup2(source, number, inheritable=False)
    os.close(null)
    os.close(report)


def keep(launch: Launch, directory: int, ready: int) -> None:
    """Be the keeper, in the final process."""
    try:
        detach_stdio(directory)
        set_process()
        os.umask(launch.umask)
        keeper = Keeper(launch, directory)
    except (OSError, LaunchError) as error:
        text = str(error) if isinstance(error, LaunchError) else f"cannot start: {error}"
        record = {"version": PROTOCOL_VERSION, "exit_code": None, "signal": None, "error": text}
        record.update(ended_by="keeper", stdout_bytes=0, stderr_bytes=0, stdin_bytes=0)
        record.update(ended_at_ms=time.time_ns() // 1_000_000, tree_empty=True)
        replace_file(directory, EXIT_NAME, encode(record), durable=True)
        os.write(ready, encode({"error": text}))
        return
    launch.data.clear()
    with contextlib.suppress(BrokenPipeError):
        # Whoever launched it may have been killed meanwhile.
        os.write(ready, encode({"ready": True, "pid": os.getpid()}))
    os.close(ready)
    keeper.run()


def detach(launch: Launch, directory: int, ready: int) -> NoReturn:
    """Leave the daemon's session and parentage, then keep; never returns."""
    try:
        os.setsid()
        if os.fork() == 0:
            keep(launch, directory, ready)
    except BaseException:
        import traceback  # noqa: PLC0415 - needed by almost no keeper

        log(traceback.format_exc())
    finally:
        os._exit(0)


def main() -> int:
    lock = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_LOCK_FD
    try:
        os.closerange(3, lock)
        os.closerange(lock + 1, 1 << 20)
        os.chdir("/")
        launch = parse_launch(read_all(0))
        directory = open_attempt(launch)
        check_lock(lock, directory)
    except LaunchError as error:
        os.write(1, encode({"error": str(error)}))
        return 1
    answer_read, ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(answer_read)
        detach(launch, directory, ready)
    os.close(ready)
    os.waitpid(child, 0)
    answer = read_all(answer_read) or encode({"error": "cannot start the keeper: it died"})
    os.write(1, answer)
    return 0 if json.loads(answer).get("ready") is True else 1


if __name__ == "__main__":
    sys.exit(main())
