"""The keeper itself: ties the sandbox, its streams, the deadline and the peers together."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from functools import partial

from ..failpoints import reach
from . import EXIT_NAME, PROTOCOL_VERSION, SOCKET_NAME, STATE_NAME, caps
from .ending import exit_record
from .errors import LaunchError, Refused
from .files import encode, log, read_some, replace_file
from .loop import Loop
from .network import Network
from .operations import perform
from .outputs import Outputs
from .peers import Peers
from .sandbox import Sandbox
from .spawn import spawn, spawn_native, stdio_pipes
from .stdin import Stdin
from .system import boottime_s, start_ticks
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .connection import Connection
    from .record import Launch

LEAVE_LIMIT_S = 5.0
# How long the values to mask are kept for a daemon that masks the logs.
SECRETS_LIMIT_S = 24 * 3600.0
# Timers stand still while the machine sleeps, the wall deadline does not.
DEADLINE_CHECK_S = 30.0
DIRECTORY_CHECK_S = 5.0


class Keeper:
    """One attempt's keeper: its sandbox runs from here on.

    `cause` says why this process ended the agent, `exit` is the record of the end once it is
    durable, `sync_error` why nobody can say what of the logs is.
    """

    def __init__(self, launch: Launch, directory: int) -> None:
        self.mask = launch.mask
        self.deadline = launch.deadline
        self.generation = 0
        self.cause: str | None = None
        self.signals_sent: set[int] = set()
        self.exit: dict[str, Any] | None = None
        self.sync_error: str | None = None
        self._told: Connection | None = None
        self._dismissed = False
        self.started_s = boottime_s()
        self._directory = directory
        self._term_grace_s = launch.term_grace_s
        self._state: dict[str, Any] = {
            "version": PROTOCOL_VERSION,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "boot_id": launch.boot_id,
            "generation": self.generation,
        }
        self._loop = Loop()
        self.peers = Peers(self._loop, directory, partial(perform, self))
        reach("keeper.listening")
        self._save_state()
        ours, theirs = stdio_pipes(launch.stdin)
        self.stdin = Stdin(self._loop, ours[0], directory)
        self.outputs = Outputs(
            self._loop, ours[1:], directory, launch, self._tell_storage, self._end_flood
        )
        self.network: Network | None = None
        if launch.gate is not None:
            self.network = Network(
                self._loop, directory, launch.gate, self._tell_network, self._end_cut_off
            )
        self.sandbox = self._started(launch, theirs)
        self._watch = caps.Watch(
            self._loop, launch, lambda: self.sandbox.init_pid, self._end_greedy
        )
        reach("keeper.spawned")
        self._handle_signals()
        self.check_deadline()
        self._check_directory()

    def _started(self, launch: Launch, stdio: tuple[int, int, int]) -> Sandbox | Tree:
        """The agent's processes, in their namespace or without one."""
        if launch.native is not None:
            return Tree(self._loop, *spawn_native(launch, stdio), self._record_tree)
        record = partial(self._record_sandbox, partial(caps.impose, launch))
        return Sandbox(self._loop, *spawn(launch, stdio), record)

    def run(self) -> None:
        """Serve until the sandbox ended and its end is on disk and told."""
        while self.exit is None or self.peers.unread or self._keeps_secrets():
            self._loop.turn()
            if self.outputs.held and self.peers.attached is None:
                # Whoever held it may never come back.
                self.outputs.release()
            if self.exit is None and self.sandbox.empty:
                self._leave_network()
                self._conclude()
            self._tell_end()
            self.peers.announce_output(self.outputs.sizes)
        reach("keeper.leaving")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET_NAME, dir_fd=self._directory)

    def status(self) -> dict[str, Any]:
        status = {
            "stdout": self.outputs.stdout.size,
            "stderr": self.outputs.stderr.size,
            "stdin_taken": self.stdin.taken,
            "stdin_fed": self.stdin.fed,
            "stdin_closed": self.stdin.closed,
            "held": self.outputs.held,
            "storage_error": self.outputs.error,
            "storage_errno": self.outputs.error_number,
            "running": self.sandbox.running,
            "deadline_boottime_s": self.deadline,
            "generation": self.generation,
            "sandbox": self.sandbox.ids,
        }
        if self.network is not None:
            status["network"] = self.network.log_bytes
        return status if self.exit is None else {**status, "exit": self.exit}

    # What is on record

    def obey(self, generation: int) -> None:
        """Refuse lower generations from now on."""
        if generation != self.generation:
            self.generation = self._state["generation"] = generation
            self._update_state()

    def _record_sandbox(self, impose: Callable[[int, int], dict[str, bool]]) -> bool:
        """The sandbox is there: what must be done before its agent starts. Whether it may."""
        ids = self._state["sandbox"] = self.sandbox.ids
        self._state["caps"] = impose(ids["pid"], ids["init_pid"])
        self._update_state()
        reach("keeper.gate")
        return self._open_network(ids["init_pid"])

    def _record_tree(self, ids: dict[str, int]) -> None:
        """The same for an agent without a sandbox."""
        self._state["sandbox"] = ids
        self._update_state()
        reach("keeper.gate")

    def _open_network(self, init: int) -> bool:
        try:
            if self.network is not None:
                self.network.open(init)
        except (OSError, LaunchError) as error:
            log(f"cannot open the gate: {error}")
            self.cause = "gate"
            return False
        return True

    def _leave_network(self) -> None:
        """Nobody is there to be served any more."""
        if self.network is not None:
            self.network.end()

    def _update_state(self) -> None:
        try:
            self._save_state()
        except OSError as error:
            # This process is what fences and kills; the file only tells who comes after it.
            log(f"cannot store {STATE_NAME}: {error}")

    def _save_state(self) -> None:
        replace_file(self._directory, STATE_NAME, encode(self._state), durable=False)

    def _tell_storage(self) -> None:
        error, number = self.outputs.error, self.outputs.error_number
        self.peers.announce("storage", error=error, errno=number)

    def _tell_network(self) -> None:
        assert self.network is not None
        self.peers.announce("network", size=self.network.log_bytes)

    # What ends the agent

    def check_deadline(self) -> None:
        """End the agent when its time is over, else look again later."""
        self._loop.cancel(self.check_deadline)
        if self.deadline is None or self.cause is not None or not self.sandbox.running:
            return
        left_s = self.deadline - boottime_s()
        if left_s <= 0:
            self._stop("deadline")
        else:
            self._loop.after(min(left_s, DEADLINE_CHECK_S), self.check_deadline)

    def _end_flood(self) -> None:
        """More was said than may be stored: what follows is read no more, so this is the end."""
        self._stop("output_limit")
        if self.cause is None:
            self.cause = "output_limit"

    def _end_cut_off(self) -> None:
        """Its way out is gone for good: said at once, rather than by an agent that finds out."""
        self._end_greedy("gate")

    def _end_greedy(self, cause: str) -> None:
        """It took more of the machine than it may: at once, for it may go on taking."""
        if self.cause is None and self.sandbox.running:
            self.cause = cause
            self.sandbox.kill()

    def _check_directory(self) -> None:
        """What an agent does that nobody can ever hear of is for nothing."""
        if self._is_homeless():
            log("cannot go on: the directory was deleted")
            self._stop("keeper")
        self._loop.after(DIRECTORY_CHECK_S, self._check_directory)

    def _handle_signals(self) -> None:
        read, write = os.pipe()
        os.set_blocking(read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        # Its number arrives in the pipe, and is acted upon in the loop's own time.
        signal.signal(signal.SIGTERM, lambda *_: None)
        self._loop.watch(read, select.EPOLLIN, partial(self._signalled, read))

    def _signalled(self, wakeups: int) -> None:
        if signal.SIGTERM in (read_some(wakeups) or b""):
            self._stop("keeper")

    def _stop(self, cause: str) -> None:
        """Ask the agent to end, and kill its tree when it has not after the grace."""
        if self.cause is not None or not self.sandbox.running:
            return
        self.cause = cause
        self._loop.after(self._term_grace_s, self.sandbox.kill)
        try:
            self.sandbox.signal_agent(signal.SIGTERM)
        except Refused:
            self.sandbox.kill()

    def _conclude(self) -> None:
        """Make everything durable once the pipes are drained, and tell the end."""
        if not self.outputs.draining:
            self.outputs.drain()
        drained = self.outputs.drained or self._is_homeless()
        if not drained or not (self.network is None or self.network.over):
            return
        self._sync_logs()
        record = exit_record(self)
        try:
            replace_file(self._directory, EXIT_NAME, encode(record), durable=True)
        except OSError as error:
            if not self._is_homeless():
                self.outputs.refused(EXIT_NAME, error)
                return
        reach("keeper.exit_written")
        self.exit = record
        self._loop.after(SECRETS_LIMIT_S, self.dismiss)

    def _sync_logs(self) -> None:
        """Bring the logs to the disk. One failure is final: a second sync could tell a lie."""
        if self.sync_error is None:
            reach("keeper.empty")
            try:
                self.outputs.sync()
                self.stdin.sync()
            except OSError as error:
                self.sync_error = f"cannot sync the logs: {error.strerror}"
                log(self.sync_error)
            reach("keeper.synced")

    def dismiss(self) -> None:
        """What had to be masked is masked: the values are needed no more."""
        self._dismissed = True

    def _keeps_secrets(self) -> bool:
        """Whether the logs are not masked yet: what to mask in them is nowhere on disk."""
        return bool(self.mask) and not self._dismissed and not self._is_homeless()

    def _is_homeless(self) -> bool:
        """Whether its directory was deleted: it can store nothing, and nobody finds it again."""
        return os.fstat(self._directory).st_nlink == 0

    def _tell_end(self) -> None:
        """Tell each daemon that attaches once; without secrets to keep, leave soon after."""
        peer = self.peers.attached
        if self.exit is None or peer is None or peer is self._told:
            return
        self._told = peer
        if not self._keeps_secrets():
            self._loop.after(LEAVE_LIMIT_S, self.peers.drop_attached)
        self.peers.announce_output(self.outputs.sizes)
        self.peers.announce("exit", **self.exit)
