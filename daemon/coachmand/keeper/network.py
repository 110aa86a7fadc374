"""The agent's way out: listeners in its network namespace, and the gate process behind them."""

from __future__ import annotations

import json
import os
import select
import signal
import sys

from ..gate import LOG_NAME, PROGRAM
from .errors import LaunchError
from .files import log, open_log, read_some
from .namespaces import MAX_LISTENERS, listen_inside
from .spawn import ENVIRONMENT, RESET_SIGNALS, memory_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop

# The processor may go to others for long; after that it is killed.
FLUSH_LIMIT_S = 2.0
MAX_FAILURES = 5


class Network:
    """The gate of one sandbox. `decided` is called when its log grew, `lost` when it is gone.

    It is started when somebody connects, and leaves when nobody does for a while: most parked
    runs, and agents that need no network, have none.

    ``orders`` is the launch record's `gate`: a policy for the gate to read, and its listeners.
    """

    def __init__(
        self,
        loop: Loop,
        directory: int,
        orders: dict[str, Any],
        decided: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._orders = orders
        self._decided = decided
        self._lost = lost
        self._log = open_log(directory, LOG_NAME, os.O_APPEND)
        self._fds: list[int] = []
        self._pid = 0
        self._pidfd = -1
        self._failures = 0
        self._ending = False
        self._news, self._notify = os.pipe()
        os.set_blocking(self._news, False)
        os.set_blocking(self._notify, False)
        loop.watch(self._news, select.EPOLLIN, self._told)

    @property
    def over(self) -> bool:
        """Whether no gate runs, and the last one has written what it had to."""
        return self._pidfd < 0

    @property
    def log_bytes(self) -> int:
        return os.fstat(self._log).st_size

    def open(self, init_pid: int) -> None:
        """Listen inside and start the gate, before the agent. Raises LaunchError, OSError."""
        places = [(each["address"], each["at"]) for each in self._orders["listeners"]]
        self._fds = listen_inside(init_pid, places)
        self._watch()

    def _watch(self) -> None:
        for fd in filter(lambda fd: fd >= 0, self._fds):
            self._loop.watch(fd, select.EPOLLIN, self._wanted)

    def _wanted(self) -> None:
        """Somebody connects: it waits in the listener until the gate is there."""
        for fd in filter(lambda fd: fd >= 0, self._fds):
            self._loop.ignore(fd)
        if self._ending:
            return
        try:
            if self._failures >= MAX_FAILURES:
                raise LaunchError(f"it died {MAX_FAILURES} times")
            self._start()
        except (OSError, LaunchError) as error:
            log(f"cannot start the gate: {error}")
            self._lost()

    def end(self) -> None:
        """Let the gate write what it counted, and leave; nobody is there any more to be served."""
        if self._ending:
            return
        self._ending = True
        if not self.over:
            signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)
            self._loop.after(FLUSH_LIMIT_S, self._kill)

    def _kill(self) -> None:
        if not self.over:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _start(self) -> None:
        listeners = [
            {"fd": fd, "host": each.get("host"), "port": each.get("port")}
            for fd, each in zip(self._fds, self._orders["listeners"], strict=True)
            if fd >= 0
        ]
        handed = [self._log, self._notify, *(each["fd"] for each in listeners)]
        orders = {
            "parent": os.getpid(),
            "policy": self._orders["policy"],
            "log": self._log,
            "notify": self._notify,
            "listeners": listeners,
        }
        told = memory_file("orders", json.dumps(orders).encode())
        for fd in handed:
            os.set_inheritable(fd, True)
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", PROGRAM],
                ENVIRONMENT,
                file_actions=[(os.POSIX_SPAWN_DUP2, told, 0), (os.POSIX_SPAWN_DUP2, 2, 1)],
                setsigmask=(),
                setsigdef=RESET_SIGNALS,
            )
        finally:
            os.close(told)
            for fd in handed:
                os.set_inheritable(fd, False)
        self._pidfd = os.pidfd_open(self._pid)
        self._loop.watch(self._pidfd, select.EPOLLIN, self._ended)

    def _ended(self) -> None:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return
        self._loop.close(self._pidfd)
        self._pidfd = -1
        self._told()
        if status != 0 and not self._ending:
            # Its streams are broken, its listeners are not: agents try again.
            log(f"the gate ended by itself ({status})")
            self._failures += 1
        if not self._ending:
            self._watch()

    def _told(self) -> None:
        if read_some(self._news):
            self._decided()


def checked_orders(value: object) -> dict[str, Any] | None:
    """The launch record's `gate`, as far as a keeper reads it. Raises LaunchError."""
    if value is None:
        return None
    known = isinstance(value, dict) and isinstance(value.get("policy"), dict)
    listeners = value.get("listeners") if isinstance(value, dict) else None
    counted = isinstance(listeners, list) and 0 < len(listeners) <= MAX_LISTENERS
    if isinstance(value, dict) and known and counted and all(map(_is_listener, listeners or ())):
        return value
    raise LaunchError("cannot start the keeper: `gate` is no policy with listeners")


def _is_listener(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("address"), str)
        and type(value.get("at")) is int
    )
