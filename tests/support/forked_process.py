"""Daemons forked off a process that has loaded all their modules, one for all tests of a worker.

Loading takes most of a daemon's start, and is the same each time.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coachmand import failpoints

SERVER = Path(__file__).with_name("fork_server.py")
# Which calls can be refused is settled while modules load.
ARMED = "start.claimed:kill@1000000000"
ANSWER_BYTES = 64
LEAVE_LIMIT_S = 10.0


class ForkedProcess:
    """A daemon as its Popen would be, though another process is its parent."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """The exit code once it has ended."""
        return self._look(0)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, limit_s: float) -> int:
        """The exit code. Raises TimeoutExpired."""
        code = self._look(limit_s)
        if code is None:
            raise subprocess.TimeoutExpired(["coachmand"], limit_s)
        return code

    def _look(self, limit_s: float) -> int | None:
        if self.returncode is None and select.select([self._pidfd], [], [], limit_s)[0]:
            self.returncode = _loaded().ask({"ended": self.pid})
            # A storm has thousands of them.
            os.close(self._pidfd)
        return self.returncode


class Loaded:
    """The process with the modules, which ends with this one."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(SERVER), str(theirs.fileno())],
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", failpoints.VARIABLE: ARMED},
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)

    def ask(self, message: Mapping[str, Any], fds: tuple[int, ...] = ()) -> int:
        """Its answer to a message."""
        with self._lock:
            socket.send_fds(self._line, [json.dumps(message).encode()], fds)
            return int(self._line.recv(ANSWER_BYTES))

    def _end(self) -> None:
        self._line.close()
        self._process.wait(LEAVE_LIMIT_S)


@functools.cache
def _loaded() -> Loaded:
    return Loaded()


def fork_daemon(env: Mapping[str, str], ready: int, log: int) -> ForkedProcess:
    """A new daemon, which has nothing but ``env`` and writes into these descriptors."""
    return ForkedProcess(_loaded().ask({"env": dict(env)}, (ready, log)))
