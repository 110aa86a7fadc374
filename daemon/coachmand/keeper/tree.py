"""An agent without a namespace: what descends from it is held as the keeper's own, and walked.

The weaker kill. Whatever loses its parent becomes this process's child, a daemon of two forks and
a session of its own as well, so that nothing that the agent started leaves the tree, and to have
no child left is to know that it is empty. What somebody else starts for the agent (a service
manager, at, cron) was never in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

from .errors import Refused
from .walk import stop_and_kill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .loop import Loop

# Those that lost their parents are reaped so often while the agent runs.
REAP_EVERY_S = 1.0
# Between two passes over a tree that is being ended: at first, and at most.
PASS_EVERY_S = 0.01
PASS_AT_MOST_EVERY_S = 1.0


class Tree:
    """The processes of one agent: `sandbox.Sandbox` for an agent that has none.

    `record` is given the agent's number before the agent itself starts.
    """

    init_pid = None

    def __init__(
        self, loop: Loop, pid: int, barrier: int, record: Callable[[dict[str, int]], None]
    ) -> None:
        self.ids = {"pid": pid}
        self.wait_status: int | None = None
        self._loop = loop
        self._pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._doomed = False
        self._bare = False
        self._pause_s = PASS_EVERY_S
        loop.watch(self._pidfd, select.EPOLLIN, self._ended)
        loop.after(REAP_EVERY_S, self._look)
        record(self.ids)
        with contextlib.suppress(BrokenPipeError):
            os.write(barrier, b"x")
        os.close(barrier)

    @property
    def exit_code(self) -> int | None:
        """The agent's own, or 128 and the number of the signal that ended it."""
        if self.wait_status is None:
            return None
        code = os.waitstatus_to_exitcode(self.wait_status)
        return code if code >= 0 else 128 - code

    @property
    def running(self) -> bool:
        """Whether the agent itself runs."""
        return self.wait_status is None

    @property
    def empty(self) -> bool:
        """Whether nothing is left of the tree: the kernel says that we have no child."""
        return self._bare

    def kill(self) -> None:
        """End everything that descends from the agent, again and again until nothing is left."""
        if not self._doomed:
            self._doomed = True
            self._walk()

    def signal_agent(self, number: int) -> None:
        """Signal the agent itself. Raises Refused when it is not running."""
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except OSError:
            text = "cannot signal the agent: it is not running"
            raise Refused("no_agent", text) from None

    def _walk(self) -> None:
        """One pass; a process that forks while it is looked for is met by the next one."""
        stop_and_kill(os.getpid())
        self._reap()
        if not self._bare:
            self._loop.after(self._pause_s, self._walk)
            self._pause_s = min(2 * self._pause_s, PASS_AT_MOST_EVERY_S)

    def _look(self) -> None:
        if not self._doomed:
            self._reap()
            self._loop.after(REAP_EVERY_S, self._look)

    def _ended(self) -> None:
        """The agent itself ended: nothing that it started is to stay."""
        self._loop.ignore(self._pidfd)
        self._reap()
        self.kill()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self._pid:
                    self.wait_status = status
        # No child at all, dead or alive.
        self._bare = True
