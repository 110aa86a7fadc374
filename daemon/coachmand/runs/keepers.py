"""Start a keeper, find out whether it lives, read what it left.

docs/keeper-protocol.md describes the launch record and the files.
"""

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import trio

from .. import keeper
from ..keeper.system import boot_id, start_ticks

LAUNCH_LIMIT_S = 20.0
ORPHANS_LIMIT_S = 5.0

_ENVIRONMENT = ("PATH", "LANG")


class KeeperError(Exception):
    """A keeper could not be started or refused a request.

    `code` is the keeper's own, or `gone`, `timeout`, `launch`; `taken` says after a refused
    write how many bytes of stdin the keeper has.
    """

    def __init__(self, message: str, code: str, taken: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.taken = taken


async def launch(
    record: Mapping[str, Any], lock_path: str | os.PathLike[str], python: str = sys.executable
) -> None:
    """Start a keeper and return once its socket listens and its sandbox was spawned.

    A cancellation is seen only afterwards, at most LAUNCH_LIMIT_S later, so that it is always
    known whether there is a keeper. Raises KeeperError (`launch`) with the keeper's own text.
    """
    lock = _take_lock(lock_path)
    try:
        with trio.CancelScope(shield=True), trio.fail_after(LAUNCH_LIMIT_S):
            done = await _run(json.dumps(record).encode(), lock, python)
    except trio.TooSlowError:
        text = f"cannot start a keeper: it took longer than {LAUNCH_LIMIT_S:.0f} s"
        raise KeeperError(text, "launch") from None
    finally:
        # The keeper holds it now, through the same open file.
        os.close(lock)
    _check(done)
    await trio.lowlevel.checkpoint()


def _take_lock(path: str | os.PathLike[str]) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise KeeperError("cannot start a keeper: the attempt has one", "launch") from None
    return lock


async def _run(record: bytes, lock: int, python: str) -> subprocess.CompletedProcess[bytes]:
    return await trio.run_process(
        [python, "-I", "-S", keeper.PROGRAM, str(lock)],
        stdin=record,
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd="/",
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        pass_fds=[lock],
    )


def _check(done: subprocess.CompletedProcess[bytes]) -> None:
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        answer = {"error": f"cannot start a keeper: {lines[-1]}"}
    if done.returncode != 0 or answer.get("ready") is not True:
        raise KeeperError(str(answer.get("error")), "launch")


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
    """Kill the sandbox of a keeper that died; whether there was one. Blocks up to a limit.

    Nearly always it died with its keeper. But one whose keeper was killed within the first
    milliseconds had not armed its death signal yet. Raises KeeperError (`orphans`) when its
    processes do not end within ORPHANS_LIMIT_S.
    """
    state = read_state(directory) or {}
    sandbox = state.get("sandbox") or {}
    if keeper_alive(directory):
        return False
    return _kill(state, sandbox.get("init_pid"), sandbox.get("init_start_ticks"), directory)


def _kill(state: Mapping[str, Any], pid: int | None, ticks: int | None, directory: object) -> bool:
    if pid is None or state.get("boot_id") != boot_id():
        return False
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The number may be another process's by now; the start time tells.
        if start_ticks(pid) != ticks:
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if not select.select([pidfd], [], [], ORPHANS_LIMIT_S)[0]:
            raise KeeperError(f"cannot end the processes of {directory}", "orphans")
    except (ProcessLookupError, FileNotFoundError):
        return False
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
