"""The running sandbox: bubblewrap, the init of its PID namespace, and how they ended."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal

from .errors import Refused
from .files import read_some
from .system import is_inner_init, start_ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop

KILL_RETRY_S = 1.0


class Sandbox:
    """The processes of one sandbox. `record` is called when `ids` has the init's number; where
    it says no, the agent does not start.

    `wait_status` is bubblewrap's own, None while it runs; `exit_code` is what it reported.
    """

    def __init__(
        self, loop: Loop, pid: int, status_pipe: int, barrier: int, record: Callable[[], bool]
    ) -> None:
        self.ids = {"pid": pid}
        self.wait_status: int | None = None
        self.exit_code: int | None = None
        self._loop = loop
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._init_pidfd = -1
        self._status_pipe = status_pipe
        self._unparsed = b""
        self._barrier = barrier
        self._record = record
        self._doomed = False
        loop.watch(self._pidfd, select.EPOLLIN, self._ended)
        loop.watch(status_pipe, select.EPOLLIN, self._reported)

    @property
    def init_pid(self) -> int | None:
        """The namespace's init while it lives."""
        return None if self._init_gone else self.ids["init_pid"]

    @property
    def running(self) -> bool:
        """Whether bubblewrap itself runs."""
        return self.wait_status is None

    @property
    def empty(self) -> bool:
        """Whether bubblewrap ended and no process of the sandbox is left."""
        return not self.running and self._init_gone

    def kill(self) -> None:
        """End every process of the sandbox: they cannot outlive their namespace's init.

        While bubblewrap has not named the init, killing bubblewrap could leave an init behind,
        so that only a second call does it; it comes by itself.
        """
        doomed, self._doomed = self._doomed, True
        with contextlib.suppress(ProcessLookupError):
            if self._init_pidfd >= 0:
                signal.pidfd_send_signal(self._init_pidfd, signal.SIGKILL)
            elif self.running:
                self._loop.after(KILL_RETRY_S, self.kill)
                if doomed:
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def signal_agent(self, number: int) -> None:
        """Signal the first child of the namespace's init. Raises Refused when there is none."""
        try:
            pid = self._agent_pid()
            pidfd = os.pidfd_open(pid)
            try:
                # Still the agent after opening: then the descriptor is the agent's.
                if self._agent_pid() != pid:
                    raise ProcessLookupError
                signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)
        except OSError:
            text = "cannot signal the agent: it is not running"
            raise Refused("no_agent", text) from None

    def _agent_pid(self) -> int:
        if self._init_pidfd < 0 or self._init_gone:
            raise ProcessLookupError
        init = self.ids["init_pid"]
        with open(f"/proc/{init}/task/{init}/children", "rb") as file:
            children = file.read().split()
        if not children:
            raise ProcessLookupError
        # Orphans are appended behind it.
        return int(children[0])

    @property
    def _init_gone(self) -> bool:
        # An init ends after the last process of its namespace, so that its end says it all.
        return self._init_pidfd < 0 or bool(select.select([self._init_pidfd], [], [], 0)[0])

    def _reported(self) -> None:
        """Take in bubblewrap's reports."""
        chunk = read_some(self._status_pipe)
        if chunk is None:
            return
        *lines, self._unparsed = (self._unparsed + chunk).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if "child-pid" in report:
                self._adopt_init(report["child-pid"])
            self.exit_code = report.get("exit-code", self.exit_code)
        if not chunk:
            self._loop.close(self._status_pipe)
            self._status_pipe = -1

    def _adopt_init(self, pid: int) -> None:
        """Get hold of the init and record it; only then may it start the agent."""
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
        self._init_pidfd = pidfd
        self.ids.update(init_pid=pid, init_start_ticks=ticks)
        # Only to be woken: whether it ended is asked anew each time.
        self._loop.watch(pidfd, select.EPOLLIN, lambda: self._loop.ignore(pidfd))
        if not self._record() or self._doomed:
            self.kill()
        else:
            os.write(self._barrier, b"x")
        os.close(self._barrier)

    def _ended(self) -> None:
        """Bubblewrap itself ended: nothing of its sandbox is to stay."""
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            self.wait_status = status
            self._loop.ignore(self._pidfd)
            if self._status_pipe >= 0:
                # Its last report arrived before its end did.
                self._reported()
            self.kill()
