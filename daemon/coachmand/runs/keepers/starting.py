"""Start a keeper, find out whether it lives, read what it left.

docs/keeper-protocol.md describes the launch record and the files.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import trio

from ... import failpoints, keeper
from ...failpoints import reach
from ...keeper.spawn import attempt_mark
from ...keeper.system import boot_id, start_ticks
from ...keeper.walk import stop_and_kill

LAUNCH_LIMIT_S = 20.0
ORPHANS_LIMIT_S = 5.0

_ENVIRONMENT = ("PATH", "LANG", failpoints.VARIABLE, failpoints.LOG_VARIABLE)


class KeeperError(Exception):
    """A keeper could not be started or refused a request.

    `code` is the keeper's own, or `gone`, `timeout`, `launch`; `taken` says after a refused
    write how many bytes of stdin the keeper has, and `errno` what its disk complains of.
    """

    def __init__(
        self, message: str, code: str, taken: int | None = None, errno: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.taken = taken
        self.errno = errno


class SurvivorError(KeeperError):
    """A process that was to be ended lives on: ``pid``, which began at ``ticks``."""

    def __init__(self, directory: object, pid: int, ticks: int, why: str) -> None:
        super().__init__(f"cannot end process {pid} of {directory}: {why}", "orphans")
        self.pid = pid
        self.ticks = ticks


class Starting:
    """A keeper's interpreter, loaded and waiting for its launch record: nothing runs yet.

    Loading takes longer than all that follows, and needs nothing of the run. Without a record
    it leaves, so that a daemon that is killed meanwhile leaves nothing behind. ``settled`` is
    set once it is where it shall begin.
    """

    def __init__(self, process: trio.Process, lock: int) -> None:
        self.settled = trio.Event()
        self.settled.set()
        self._process = process
        self._lock = lock

    def __repr__(self) -> str:
        return f"<Starting pid {self.pid}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    async def begin(
        cls, lock_path: str | os.PathLike[str], python: str = sys.executable
    ) -> "Starting":
        """Load one. It, or whoever forks from it, holds the attempt's lock from here on.

        Raises KeeperError (`launch`) where the attempt has a keeper, or Python cannot be run.
        """
        lock = _take_lock(lock_path)
        try:
            with trio.CancelScope(shield=True):
                process = await trio.lowlevel.open_process(
                    [python, "-I", "-S", keeper.PROGRAM, str(lock)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd="/",
                    env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                    pass_fds=[lock],
                )
        except OSError as error:
            os.close(lock)
            text = f"cannot start a keeper: {python}: {error.strerror}"
            raise KeeperError(text, "launch") from error
        return cls(process, lock)

    async def launch(self, record: Mapping[str, Any]) -> None:
        """Hand the record over; return once the socket listens and the sandbox was spawned.

        A cancellation is seen only afterwards, at most LAUNCH_LIMIT_S later, so that it is
        always known whether there is a keeper. Raises KeeperError (`launch`) with its own text.
        """
        try:
            with trio.CancelScope(shield=True), trio.fail_after(LAUNCH_LIMIT_S):
                await self.settled.wait()
                answer = await self._finish(json.dumps(record).encode())
        except trio.TooSlowError:
            self._process.kill()
            text = f"cannot start a keeper: it took longer than {LAUNCH_LIMIT_S:.0f} s"
            raise KeeperError(text, "launch") from None
        finally:
            # The keeper holds it now, through the same open file.
            os.close(self._lock)
        if self._process.returncode != 0 or answer.get("ready") is not True:
            raise KeeperError(str(answer.get("error")), "launch")
        await trio.lowlevel.checkpoint()

    async def abandon(self) -> None:
        """It is not needed after all: let it leave."""
        with trio.CancelScope(shield=True), trio.move_on_after(LAUNCH_LIMIT_S):
            await self._finish(b"")
        os.close(self._lock)

    async def _finish(self, record: bytes) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with contextlib.suppress(trio.BrokenResourceError):
            # One that died says why on stderr.
            await process.stdin.send_all(record)
        await process.stdin.aclose()
        said = b"".join([chunk async for chunk in process.stdout])
        complained = b"".join([chunk async for chunk in process.stderr])
        await process.wait()
        await process.stdout.aclose()
        await process.stderr.aclose()
        return _answer(said, complained)


async def launch(
    record: Mapping[str, Any], lock_path: str | os.PathLike[str], python: str = sys.executable
) -> None:
    """Start a keeper from nothing; see `Starting.launch`. Of one that fails nothing is left."""
    starting = await Starting.begin(lock_path, python)
    try:
        await starting.launch(record)
    except KeeperError:
        await trio.to_thread.run_sync(end_keeper, os.path.dirname(lock_path))
        raise


def _answer(said: bytes, complained: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(said)
    except ValueError:
        lines = complained.decode(errors="replace").strip().splitlines() or ["no reason given"]
        return {"error": f"cannot start a keeper: {lines[-1]}"}
    return answer if isinstance(answer, dict) else {"error": "cannot start a keeper: no answer"}


def _take_lock(path: str | os.PathLike[str]) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise KeeperError("cannot start a keeper: the attempt has one", "launch") from None
    return lock


def keeper_alive(directory: str | os.PathLike[str]) -> bool:
    """Whether a keeper holds the attempt's lock; never blocks.

    Ask this before `read_exit`: a keeper writes exit.json, then leaves.
    """
    try:
        lock = os.open(os.path.join(directory, keeper.LOCK_NAME), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def end_keeper(directory: str | os.PathLike[str]) -> bool:
    """Kill a keeper that does not answer, and its sandbox; whether there was one.

    Blocks up to two limits. Raises KeeperError (`orphans`) when they do not end within
    ORPHANS_LIMIT_S each.
    """
    state = read_state(directory) or {}
    ended = _kill(state, state.get("pid"), state.get("start_ticks"), directory)
    return kill_orphans(directory) or ended


def kill_orphans(directory: str | os.PathLike[str]) -> bool:
    """Kill what a keeper that died left behind; whether there was anything. Blocks up to a limit.

    Nearly always its sandbox died with it. But one whose keeper was killed within the first
    milliseconds had not armed its death signal yet, and perhaps is not on record either: it
    names the attempt in its environment. So does whatever an agent without a sandbox started,
    which is looked for until nothing more is found. Raises KeeperError (`orphans`) when
    processes do not end within ORPHANS_LIMIT_S.
    """
    state = read_state(directory) or {}
    sandbox = state.get("sandbox") or {}
    if keeper_alive(directory):
        return False
    known = _kill(state, sandbox.get("init_pid"), sandbox.get("init_start_ticks"), directory)
    found, until_s = known, time.monotonic() + ORPHANS_LIMIT_S
    while left := list(_unrecorded(directory)):
        found = True
        for mark in left:
            _kill({"boot_id": boot_id()}, *mark, directory, whole=True)
        if time.monotonic() > until_s:
            why = "more of its kind are started than can be ended"
            raise SurvivorError(directory, *left[0], why)
    return found


def _unrecorded(directory: str | os.PathLike[str]) -> Iterator[tuple[int, int]]:
    """Numbers and start times of bubblewrap's processes that name the attempt."""
    try:
        mark = f"{keeper.ATTEMPT_VARIABLE}={attempt_mark(directory)}".encode()
    except FileNotFoundError:
        return
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            ticks = start_ticks(int(name))
            if mark in file.read().split(b"\0"):
                yield int(name), ticks


def _kill(
    state: Mapping[str, Any],
    pid: int | None,
    ticks: int | None,
    directory: object,
    *,
    whole: bool = False,
) -> bool:
    """End one process, if it is still the one meant; the ``whole``: with what descends from it."""
    if pid is None or ticks is None or state.get("boot_id") != boot_id():
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The number may be another process's by now; the start time tells.
        if start_ticks(pid) != ticks:
            return False
        reach("orphan.found")
        if whole:
            signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
            stop_and_kill(pid, pidfd)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if not select.select([pidfd], [], [], ORPHANS_LIMIT_S)[0]:
            why = f"it was killed, and lives on after {ORPHANS_LIMIT_S:.0f} s"
            raise SurvivorError(directory, pid, ticks, why)
    except (ProcessLookupError, FileNotFoundError):
        return False
    except OSError as error:
        raise SurvivorError(directory, pid, ticks, str(error.strerror)) from error
    finally:
        os.close(pidfd)
    return True


def read_exit(directory: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The attempt's exit.json; None when there is none."""
    return _read_object(os.path.join(directory, keeper.EXIT_NAME))


def read_state(directory: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The attempt's keeper.json; None when there is none, or a power cut tore it."""
    return _read_object(os.path.join(directory, keeper.STATE_NAME))


def _read_object(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            content = json.load(file)
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None
