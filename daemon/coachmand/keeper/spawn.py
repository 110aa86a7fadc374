"""Start bubblewrap: what it inherits, and nothing else."""

from __future__ import annotations

import fcntl
import os
import signal

from . import ATTEMPT_VARIABLE
from .errors import LaunchError
from .files import write_all
from .system import die_with_parent, hold_descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .record import Launch

# Can be read inside as that of process 1: the user's own PATH would name their home.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
# What a shell says of a program that could not be run.
EXIT_NOT_RUN = 127
# Python ignores the first two, a keeper handles the others.
RESET_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def stdio_pipes(stdin: str) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Our ends of the agent's stdin (-1 when it is `null`), stdout and stderr; then its ends."""
    if stdin == "null":
        stdin_read, stdin_write = os.open("/dev/null", os.O_RDONLY), -1
    else:
        stdin_read, stdin_write = os.pipe()
        os.set_blocking(stdin_write, False)
    stdout_read, stdout_write = os.pipe()
    stderr_read, stderr_write = os.pipe()
    os.set_blocking(stdout_read, False)
    os.set_blocking(stderr_read, False)
    return (stdin_write, stdout_read, stderr_read), (stdin_read, stdout_write, stderr_write)


def spawn(launch: Launch, stdio: tuple[int, int, int]) -> tuple[int, int, int]:
    """Start bubblewrap on three descriptors; its pid, status pipe and barrier. Raises OSError.

    It belongs to the calling thread, the only one: its death signal follows a thread, not a
    process. In a session of its own no `kill(0)` inside reaches the keeper.

    The init arms its death signal last, so that a keeper killed during the set-up leaves it
    behind. It therefore waits at a barrier until its number is in keeper.json.
    """
    data = [memory_file(f"data{index}", content) for index, content in enumerate(launch.data)]
    arguments = memory_file("args", sandbox_arguments(launch.args, data))
    status_read, status_write = os.pipe()
    barrier = closed_barrier()
    for fd in (arguments, *data, status_write, barrier):
        os.set_inheritable(fd, True)
    pid = os.posix_spawn(
        launch.bwrap,
        [
            # Its command line can be read inside: where it lies is nobody's business there.
            *("bwrap", "--die-with-parent", "--block-fd", str(barrier)),
            *("--json-status-fd", str(status_write), "--args", str(arguments)),
            *("--", *launch.command),
        ],
        # By the directory whoever finds the keeper dead finds what it could not record.
        {**ENVIRONMENT, ATTEMPT_VARIABLE: attempt_mark(launch.directory)},
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(stdio)],
        setsid=True,
        setsigmask=(),
        setsigdef=RESET_SIGNALS,
    )
    for fd in (arguments, *data, status_write, *stdio):
        os.close(fd)
    os.set_blocking(status_read, False)
    os.set_inheritable(barrier, False)
    return pid, status_read, barrier


def spawn_native(launch: Launch, stdio: tuple[int, int, int]) -> tuple[int, int]:
    """Start the agent itself on three descriptors; its pid and barrier.

    It waits at the barrier until its number is in keeper.json, and dies with this thread; what it
    starts names the attempt in its environment, by which that is found when the keeper died.
    """
    assert launch.native is not None
    environment = {**launch.native.env, ATTEMPT_VARIABLE: attempt_mark(launch.directory)}
    program = find_program(launch.command[0], environment, launch.native.cwd)
    hold_descendants()
    keeper = os.getpid()
    read, barrier = os.pipe()
    pid = os.fork()
    if pid:
        for fd in (read, *stdio):
            os.close(fd)
        return pid, barrier
    try:
        os.close(barrier)
        os.setsid()
        die_with_parent()
        for number, fd in enumerate(stdio):
            os.dup2(fd, number)
        # An end of file is the keeper's death, which the signal may have come too late for.
        if os.getppid() != keeper or not os.read(read, 1):
            os._exit(EXIT_NOT_RUN)
        for each in RESET_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        os.chdir(launch.native.cwd)
        os.execve(program, launch.command, environment)  # noqa: S606 - it is to be no shell
    except BaseException as error:
        os.write(2, f"coachman: cannot run {program}: {error}\n".encode())
    finally:
        os._exit(EXIT_NOT_RUN)


def find_program(name: str, environment: dict[str, str], cwd: str) -> str:
    """The file that a shell would run by this name. Raises LaunchError."""
    directories = environment.get("PATH", os.defpath).split(":") if "/" not in name else [cwd]
    for directory in directories:
        path = os.path.join(cwd, directory, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise LaunchError(f"cannot start the agent: there is no program {name}")


def closed_barrier() -> int:
    """A pipe by one descriptor for both of its ends: who waits there is let through by a byte.

    An end of its own for each would let it through when the keeper dies, and a counter refuses
    to be read by the byte, which is how bubblewrap waits.
    """
    read, write = os.pipe()
    try:
        return os.open(f"/proc/self/fd/{read}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        os.close(read)
        os.close(write)


def attempt_mark(directory: str | os.PathLike[str]) -> str:
    """What names an attempt's directory to those who can look at it, and tells others nothing."""
    facts = os.stat(directory)
    return f"{facts.st_dev}:{facts.st_ino}"


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
