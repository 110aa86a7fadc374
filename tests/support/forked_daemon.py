"""Daemons forked off a process that has loaded all their modules: many can be killed in a minute.

Loading takes most of a daemon's start, and is the same each time.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from pathlib import Path

from coachmand import failpoints
from daemon_process import DaemonProcess

SERVER = Path(__file__).with_name("fork_server.py")
# Which calls can be refused is settled while modules load.
ARMED = "start.claimed:kill@1000000000"
MESSAGE_BYTES = 256 * 1024


class ForkedProcess:
    """A daemon as its Popen would be, though another process is its parent."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """0 once it has ended, whatever its exit code was."""
        return 0 if select.select([self._pidfd], [], [], 0)[0] else None

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, limit_s: float) -> int:
        assert select.select([self._pidfd], [], [], limit_s)[0], "the daemon did not end"
        return 0

    def forget(self) -> None:
        """It has ended, and another one is about to follow: a storm has thousands of them."""
        os.close(self._pidfd)


class ForkedDaemon(DaemonProcess):
    """A daemon that starts in a fraction of the time."""

    _loaded: "subprocess.Popen[bytes] | None" = None
    _line: socket.socket

    def spawn_daemon(self, ready: int, log: int) -> ForkedProcess:
        if self._loaded is None:
            self._load()
        if isinstance(self.process, ForkedProcess):
            self.process.forget()
        asked = json.dumps(self.env).encode()
        socket.send_fds(self._line, [asked], [ready, log])
        return ForkedProcess(int(self._line.recv(MESSAGE_BYTES)))

    def _load(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._loaded = subprocess.Popen(
                [self.python, "-I", str(SERVER), str(theirs.fileno())],
                env={**self.env, failpoints.VARIABLE: ARMED},
                cwd="/",
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def tidy(self) -> None:
        super().tidy()
        if self._loaded is not None:
            self._line.close()
            self._loaded.wait(10)
            self._loaded = None
