"""Start the daemon of this user and wait until it answers.

Where it is installed as a service, the user manager starts it. Two that start at once
converge: the second daemon finds the state lock held, says so, and its starter connects to
the first.
"""

import errno
import json
import os
import sys
import time
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM
from _socket import socket as Socket  # noqa: N812 - a class, whatever its spelling

from . import service
from .connection import Connection, with_short_path
from .environment import for_daemon
from .errors import CoachmanError, ConnectionLostError, DaemonNotRunning
from .paths import socket_path, state_dir
from .wire import EXIT_NO_DAEMON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from io import FileIO
    from typing import Any

READY_TIMEOUT_S = 15.0
# Reading a hundred thousand results takes its time.
PROGRAM_TIMEOUT_S = 900.0
LOG_NAME = "daemon.log"
_POLL_S = 0.05
_MAX_READY_BYTES = 64 * 1024
_OFF = frozenset({"0", "no", "off", "false"})
# Between us and the daemon: no child to reap, no terminal to lose, and none of the
# descriptors that this process was given: a pipe of CI's would stay open for good.
_DETACH = (
    "import os, sys\n"
    "if os.fork(): os._exit(0)\n"
    "ready = int(sys.argv[-1])\n"
    "os.closerange(3, ready)\n"
    "os.closerange(ready + 1, os.sysconf('SC_OPEN_MAX'))\n"
    "os.setsid()\n"
    "os.chdir('/')\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


def may_start(env: "Mapping[str, str]") -> bool:
    """Whether a missing daemon may be started without being asked for."""
    return not env.get("COACHMAN_SOCKET") and env.get("COACHMAN_AUTOSTART", "").lower() not in _OFF


def start_daemon(
    env: "Mapping[str, str]",
    *,
    command: "Sequence[str] | None" = None,
    timeout_s: float = READY_TIMEOUT_S,
) -> "dict[str, Any]":
    """Start a daemon and return ``{"ready": true, "socket", "pid"}``.

    ``pid`` is None where another starter was quicker. Raises CoachmanError with
    the daemon's own words when it refuses, or when it stays silent.
    """
    if command is None and service.start(env):
        return {"ready": True, "socket": socket_path(env), "pid": None}
    deadline = time.monotonic() + timeout_s
    state = state_dir(env)
    _make_private(state)
    probe_unix_socket(os.path.dirname(socket_path(env)))
    log = os.path.join(state, LOG_NAME)
    read_end, write_end = os.pipe()
    try:
        _spawn(command or (sys.executable, "-I", "-m", "coachmand"), write_end, log, env)
        os.close(write_end)
        write_end = -1
        said = _hear(read_end, deadline, log)
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)
    if said.get("ready"):
        return said
    return _converge(said.get("error") or {}, socket_path(env), deadline, log)


def check_daemon(
    env: "Mapping[str, str]",
    *,
    command: "Sequence[str] | None" = None,
    timeout_s: float = READY_TIMEOUT_S,
) -> None:
    """Ask a daemon whether it could start as things stand; it starts nothing.

    Raises CoachmanError with the daemon's own words where it could not.
    """
    code, words = run_program(env, "--check", _unchecked, command=command, timeout_s=timeout_s)
    if code == 0:
        return
    for word in reversed(words):
        if refused := _error_in(word):
            raise _refusal({"exit": code, **refused}, "nothing was stopped")
    raise _unchecked(words[-1] if words else "it gave no reason")


def ask_program(env: "Mapping[str, str]", option: str, what: str) -> "dict[str, Any]":
    """Run the daemon's program for one thing only, while no daemon runs; what it says of it.

    Raises CoachmanError with its own words where it could not.
    """

    def failed(cause: str) -> CoachmanError:
        return CoachmanError(f"cannot {what}: {cause}")

    code, words = run_program(env, option, failed)
    for word in reversed(words):
        if refused := _error_in(word):
            raise _refusal({"exit": code, **refused}, "nothing was changed")
        if code == 0 and word.startswith('{"runs"'):
            said: dict[str, Any] = json.loads(word)
            return said
    raise failed(words[-1] if words else "it gave no reason")


def run_program(
    env: "Mapping[str, str]",
    option: str,
    failed: "Callable[[str], CoachmanError]",
    *,
    stdin: bytes = b"",
    command: "Sequence[str] | None" = None,
    timeout_s: float = PROGRAM_TIMEOUT_S,
) -> tuple[int, list[str]]:
    """The daemon's program with one option, to its end: its exit code and all it printed.

    Raises what ``failed`` makes of the cause where it cannot be run.
    """
    argv = [*(command or (sys.executable, "-I", "-m", "coachmand")), option]
    told = os.memfd_create("stdin", os.MFD_CLOEXEC)
    os.write(told, stdin)
    os.lseek(told, 0, os.SEEK_SET)
    read_end, write_end = os.pipe()
    with open(read_end, "rb", buffering=0) as said:
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                for_daemon(env),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, told, 0),
                    (os.POSIX_SPAWN_DUP2, write_end, 1),
                    (os.POSIX_SPAWN_DUP2, write_end, 2),
                ],
            )
        except OSError as error:
            raise failed(str(error)) from None
        finally:
            os.close(told)
            os.close(write_end)
        words = _all_of(said, pid, time.monotonic() + timeout_s)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), words


def _all_of(said: "FileIO", pid: int, deadline: float) -> list[str]:
    """The lines that a process prints until it ends, which is enforced at ``deadline``."""
    import select
    import signal

    poll = select.poll()
    poll.register(said, select.POLLIN)
    heard = b""
    while poll.poll(max(0, int((deadline - time.monotonic()) * 1000))):
        if not (data := said.read(4096)):
            break
        heard += data
    else:
        os.kill(pid, signal.SIGKILL)
    return [line for line in heard.decode("utf-8", "replace").splitlines() if line.strip()]


def _error_in(line: str) -> "dict[str, Any] | None":
    try:
        document = json.loads(line)
    except ValueError:
        return None
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, dict) else None


def _unchecked(cause: str) -> CoachmanError:
    return CoachmanError(
        f"cannot check the daemon: {cause}",
        hint="nothing was stopped; `coachman daemon stop` and `start` do not check",
    )


def probe_unix_socket(directory: str) -> None:
    """Bind and connect a socket in ``directory``; raises where a sandbox forbids it."""
    _make_private(directory)
    path = os.path.join(directory, f".probe-{os.getpid()}")
    try:
        with _socket_pair_at(path):
            pass
    except OSError as error:
        from .confinement import around

        agent, whose, help_ = around(os.environ)
        cause = f"{whose} blocks it" if agent else os.strerror(error.errno or 0)
        outside = (
            "if an agent's sandbox is around this process, start the daemon outside it:"
            " `coachman daemon start` in a shell of your own"
        )
        raise CoachmanError(
            f"cannot start the daemon: Unix sockets do not work in {directory} ({cause})",
            name="DaemonNotRunning",
            hint=help_ if agent else outside,
            detail={"sandbox": agent, "errno": errno.errorcode.get(error.errno or 0)},
        ) from None


class _socket_pair_at:  # noqa: N801 - used as a context manager only
    def __init__(self, path: str) -> None:
        self._path = path
        self._ends = (
            Socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC),
            Socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC),
        )

    def __enter__(self) -> None:
        listening, calling = self._ends
        try:
            with_short_path(self._path, listening.bind)
            listening.listen(1)
            with_short_path(self._path, calling.connect)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc_info: object) -> None:
        for end in self._ends:
            end.close()
        if os.path.lexists(self._path):
            os.unlink(self._path)


def _make_private(directory: str) -> None:
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise CoachmanError(
            f"cannot start the daemon: {directory} cannot be made"
            f" ({os.strerror(error.errno or 0)})",
            name="Degraded",
            hint="COACHMAN_STATE_DIR names another place",
        ) from None


def _spawn(command: "Sequence[str]", ready_fd: int, log: str, env: "Mapping[str, str]") -> None:
    arguments = [sys.executable, "-I", "-S", "-c", _DETACH, *command, "--ready-fd", str(ready_fd)]
    appending = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    os.set_inheritable(ready_fd, True)
    try:
        intermediate = os.posix_spawn(
            sys.executable,
            arguments,
            for_daemon(env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, appending, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
    except OSError as error:
        raise _silent(f"it could not be spawned ({error})", log) from None
    os.waitpid(intermediate, 0)


def _hear(read_end: int, deadline: float, log: str) -> "dict[str, Any]":
    import select

    poll = select.poll()
    poll.register(read_end, select.POLLIN)
    heard = b""
    while b"\n" not in heard and len(heard) < _MAX_READY_BYTES:
        left_ms = int((deadline - time.monotonic()) * 1000)
        if left_ms <= 0 or not poll.poll(left_ms):
            raise _silent("it is not ready in time", log)
        data = os.read(read_end, 4096)
        if not data:
            raise _silent("it left before it was ready", log)
        heard += data
    try:
        said = json.loads(heard.partition(b"\n")[0])
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise _silent("it said something that is no JSON object", log)
    return said


def _converge(error: "dict[str, Any]", path: str, deadline: float, log: str) -> "dict[str, Any]":
    while error.get("name") == "Conflict" and time.monotonic() < deadline:
        try:
            Connection(path, 1.0).close()
        except (DaemonNotRunning, ConnectionLostError):
            time.sleep(_POLL_S)
        else:
            return {"ready": True, "socket": path, "pid": None}
    raise _refusal(error, f"its log is {log}")


def _refusal(error: "dict[str, Any]", hint: str) -> CoachmanError:
    """The daemon's own words; ``hint`` is for when it gave none."""
    exit_code = error.get("exit")
    return CoachmanError(
        str(error.get("message") or "cannot start the daemon: it gave no reason"),
        name=str(error.get("name") or "DaemonNotRunning"),
        hint=error.get("hint") or hint,
        exit_code=exit_code if isinstance(exit_code, int) else EXIT_NO_DAEMON,
    )


def _silent(cause: str, log: str) -> DaemonNotRunning:
    return DaemonNotRunning(
        f"cannot start the daemon: {cause}",
        hint=f"its last words are in {log}",
        next=[["coachman", "daemon", "logs"]],
    )
