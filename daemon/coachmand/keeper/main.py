"""Start a keeper: check the record and the lock, leave the daemon's session, say "ready"."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys

from ..failpoints import reach
from . import EXIT_NAME, LOCK_NAME, LOG_NAME, STATE_NAME
from .ending import not_started
from .errors import LaunchError
from .files import CHUNK_BYTES, encode, log, open_log, replace_file
from .keeper import Keeper
from .record import Launch, parse_launch
from .system import set_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

DEFAULT_LOCK_FD = 3
MAX_FD = 1 << 20
MAX_RECORD_BYTES = 64 * 1024 * 1024


def main() -> int:
    """The first process: it ends once the keeper is there, or cannot be."""
    lock = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_LOCK_FD
    try:
        os.closerange(3, lock)
        os.closerange(lock + 1, MAX_FD)
        os.chdir("/")
        launch = parse_launch(read_all(0))
        directory = open_attempt(launch)
        check_lock(lock, directory)
        reach("keeper.checked")
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


def read_all(fd: int) -> bytes:
    content = bytearray()
    while chunk := os.read(fd, CHUNK_BYTES):
        content += chunk
        if len(content) > MAX_RECORD_BYTES:
            text = f"cannot start the keeper: the record exceeds {MAX_RECORD_BYTES} bytes"
            raise LaunchError(text)
    return bytes(content)


def open_attempt(launch: Launch) -> int:
    try:
        directory = os.open(launch.directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LaunchError(f"cannot start the keeper: {error}") from None
    if {STATE_NAME, EXIT_NAME} & set(os.listdir(directory)):
        raise LaunchError("cannot start the keeper: this attempt had one already")
    return directory


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


def keep(launch: Launch, directory: int, ready: int) -> None:
    """Be the keeper, in the final process."""
    try:
        detach_stdio(directory)
        reach("keeper.detached")
        set_process()
        os.umask(launch.umask)
        keeper = Keeper(launch, directory)
    except (OSError, LaunchError) as error:
        text = str(error) if isinstance(error, LaunchError) else f"cannot start: {error}"
        replace_file(directory, EXIT_NAME, encode(not_started(text)), durable=True)
        os.write(ready, encode({"error": text}))
        return
    launch.data.clear()
    with contextlib.suppress(BrokenPipeError):
        # Whoever launched it may have been killed meanwhile.
        os.write(ready, encode({"ready": True, "pid": os.getpid()}))
    os.close(ready)
    reach("keeper.ready")
    keeper.run()


def detach_stdio(directory: int) -> None:
    """Let go of the daemon's pipes, so that it sees their end."""
    null = os.open("/dev/null", os.O_RDWR)
    report = open_log(directory, LOG_NAME, os.O_APPEND)
    for source, number in ((null, 0), (null, 1), (report, 2)):
        os.dup2(source, number, inheritable=False)
    os.close(null)
    os.close(report)
