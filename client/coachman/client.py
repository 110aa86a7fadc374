"""``connect()`` and the client that it returns."""

import os

from .connection import Connection
from .errors import ConnectionLostError, DaemonNotRunning
from .events import RECONNECT_S, EventStream
from .nouns import (
    AgentMethods,
    EventMethods,
    PermissionMethods,
    ProfileMethods,
    RunMethods,
    TaskMethods,
)
from .nouns_daemon import DaemonMethods, LeaseMethods
from .paths import socket_path
from .wire import API_VERSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

CALL_TIMEOUT_S = 60.0
# How often a request is repeated that a leaving daemon did not take.
REPEATS = 3


def connect(
    socket: str | None = None,
    autostart: bool = False,
    timeout: float | None = CALL_TIMEOUT_S,
    *,
    name: str | None = None,
) -> "Client":
    """Connect to the daemon of this user.

    ``socket`` is the path of the control socket (default: as the command line
    finds it). With ``autostart`` a missing daemon is started, unless ``socket``,
    ``COACHMAN_SOCKET`` or ``COACHMAN_AUTOSTART=0`` forbids it. ``timeout`` bounds
    each call, in seconds; waits and starts have their own. ``name`` is what others
    see when this client answers or cancels.

    Raises DaemonNotRunning, or CoachmanError (``Denied``) where this process may
    not connect.
    """
    path = socket or socket_path(os.environ)
    client = Client(path, timeout, name)
    try:
        client.open()
    except DaemonNotRunning:
        if not autostart:
            raise
        from .autostart import may_start, start_daemon

        if socket is not None or not may_start(os.environ):
            raise
        start_daemon(os.environ)
        client.open()
    return client


class Client:
    """Typed methods for every RPC, over one connection.

    Not for several threads at once: give each its own. Between calls a daemon
    may come and go; the next call connects again.
    """

    def __init__(
        self, path: str, timeout_s: float | None = CALL_TIMEOUT_S, name: str | None = None
    ) -> None:
        self.path = path
        self.name = name
        self._timeout_s = timeout_s
        self._connection: Connection | None = None
        self.daemon = DaemonMethods(self)
        self.agent = AgentMethods(self)
        self.profile = ProfileMethods(self)
        self.run = RunMethods(self)
        self.event = EventMethods(self)
        self.lease = LeaseMethods(self)
        self.permission = PermissionMethods(self)
        self.task = TaskMethods(self)

    def __repr__(self) -> str:
        state = "closed" if self._connection is None else "connected"
        return f"<Client {self.path} {state}>"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def open(self) -> Connection:
        """Connect now, unless a live connection is there; calls do so by themselves."""
        if self._connection is not None and not self._connection.alive():
            self.close()
        if self._connection is None:
            self._connection = _repeated(self._introduced)
        return self._connection

    def _introduced(self) -> Connection:
        connection = Connection(self.path, self._timeout_s)
        try:
            if self.name is not None:
                hello = {"client": {"name": self.name}, "api": list(API_VERSIONS)}
                connection.call("daemon.hello", hello, self._timeout_s)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Hang up. Runs go on."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(
        self,
        method: str,
        params: "Mapping[str, object] | None" = None,
        *,
        timeout_s: float | None = -1.0,
        descriptors: "Sequence[int]" = (),
    ) -> "Any":
        """Call any method of the wire by name; ``timeout_s`` None waits for ever.

        ``descriptors`` are sent along, and stay the caller's to close.

        Raises CoachmanError as the daemon answered, ConnectionLostError when it
        went away before it did.
        """
        patience = self._timeout_s if timeout_s is not None and timeout_s < 0 else timeout_s
        return _repeated(lambda: self._call(method, params or {}, patience, descriptors))

    def _call(
        self,
        method: str,
        params: "Mapping[str, object]",
        patience: float | None,
        descriptors: "Sequence[int]",
    ) -> "Any":
        connection = self.open()
        answered = False
        try:
            result = connection.call(method, params, patience, descriptors)
            answered = True
        finally:
            # An answer that still is under way must not meet the next request.
            if not answered:
                self.close()
        return result

    def events(
        self,
        run: str,
        after_seq: int | None = None,
        *,
        cursor: str | None = None,
        types: "Sequence[str] | None" = None,
        dir: str | None = None,
        reconnect_s: float = RECONNECT_S,
        on_lost: "Callable[[], None] | None" = None,
    ) -> EventStream:
        """The run's events from its first (or behind ``after_seq`` or ``cursor``) to its end.

        The stream has its own connection and outlives the daemon by up to
        ``reconnect_s`` seconds at a time.
        """
        params = {"run": run, "after_seq": after_seq, "types": _listed(types), "dir": dir}
        return EventStream(
            self.path, params, cursor=cursor, reconnect_s=reconnect_s, on_lost=on_lost
        )

    def follow(  # noqa: PLR0913 - the facts that a run is chosen by, each by keyword
        self,
        runs: "Sequence[str] | None" = None,
        *,
        labels: "Mapping[str, str] | None" = None,
        batch: str | None = None,
        task: str | None = None,
        agent: str | None = None,
        here: str | None = None,
        parent: str | None = None,
        types: "Sequence[str] | None" = None,
        since: int | None = None,
        cursor: str | None = None,
        until_now: bool = False,
        dir: str | None = None,
        reconnect_s: float = RECONNECT_S,
        on_lost: "Callable[[], None] | None" = None,
    ) -> EventStream:
        """The events of many runs as one stream, those of runs that begin later included.

        Of all runs, of those named, or of those that have all of these facts (``here`` is a
        directory: the runs of its repository; ``parent`` is the run that started them). Named
        runs begin with their first events and the stream ends with the last of them; others
        begin now, or at ``since`` (ms), or behind ``cursor``. With ``until_now`` it ends at what
        there is. As `events`, it outlives the daemon.
        """
        facts = {
            "runs": _listed(runs),
            "labels": labels,
            "batch": batch,
            "task": task,
            "agent": agent,
            "here": here,
            "parent": parent,
        }
        chosen = {name: fact for name, fact in facts.items() if fact is not None}
        params: dict[str, object] = {"filter": chosen, "types": _listed(types), "since": since}
        if until_now:
            params["follow"] = False
        return EventStream(
            self.path,
            {**params, "dir": dir},
            cursor=cursor,
            reconnect_s=reconnect_s,
            on_lost=on_lost,
        )


def _listed(words: "Sequence[str] | None") -> "list[str] | None":
    return None if words is None else list(words)


def _repeated(ask: "Callable[[], T]") -> "T":
    """Ask again what a daemon that restarts in place did not take; the next one is waited for."""
    for _ in range(REPEATS):
        try:
            return ask()
        except ConnectionLostError as error:
            if not error.untaken:
                raise
    return ask()
