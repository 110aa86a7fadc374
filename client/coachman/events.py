"""The events of a run, or of many, as an iterator that survives the daemon.

A stream has a connection of its own. When that breaks, the stream connects
again and goes on behind the last event it handed out: none twice, none lost.
"""

import time

from .connection import Connection
from .errors import CoachmanError, ConnectionLostError, DaemonNotRunning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .results import Event

RECONNECT_S = 30.0
_SUBSCRIBE_TIMEOUT_S = 30.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


class EventStream:
    """Events in order, each once. Those of one run end with it.

    ``params`` are those of ``event.subscribe``. ``cursor`` is where the stream stands and
    resumes another one. ``reason`` says why it ended. ``reconnect_s`` bounds how long a missing
    daemon is waited for before DaemonNotRunning or ConnectionLostError is raised; ``on_lost`` is
    called once each time that waiting begins.
    """

    def __init__(
        self,
        path: str,
        params: "Mapping[str, object]",
        *,
        cursor: str | None = None,
        reconnect_s: float = RECONNECT_S,
        on_lost: "Callable[[], None] | None" = None,
    ) -> None:
        self._path = path
        self._params = {name: value for name, value in params.items() if value is not None}
        self.cursor = cursor
        self._reconnect_s = reconnect_s
        self._on_lost = on_lost
        self.reason: str | None = None
        self._connection: Connection | None = None
        try:
            self._subscribe()
        except ConnectionLostError:
            # Asking again costs nothing: a daemon that leaves just now is waited for as later on.
            self._reconnect()

    def __repr__(self) -> str:
        return f"<EventStream {self._params} cursor={self.cursor!r} reason={self.reason!r}>"

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __iter__(self) -> "EventStream":
        return self

    def __next__(self) -> "Event":
        event = self.read(None)
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """Hang up; the run does not notice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def fileno(self) -> int:
        """For ``poll``; changes when the stream had to connect again."""
        assert self._connection is not None, "the stream has ended"
        return self._connection.fileno()

    def buffered(self) -> bool:
        """Whether ``read`` would not have to wait for the socket."""
        return self._connection is None or self._connection.buffered()

    def read(self, timeout_s: float | None) -> "Event | None":
        """The next event; None at the end (``reason`` is set) or after ``timeout_s``."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.reason is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                message = self._live().receive(left)
            except ConnectionLostError:
                self._reconnect()
                continue
            except BaseException:
                self.close()
                raise
            if message is None:
                return None
            if (event := self._accept(message)) is not None:
                return event
        return None

    def _live(self) -> Connection:
        if self._connection is None:
            self._subscribe()
        assert self._connection is not None
        return self._connection

    def _accept(self, message: "dict[str, Any]") -> "Event | None":
        method, params = message.get("method"), message.get("params") or {}
        if method == "event.end":
            self._ended(params)
            return None
        if method in ("event.event", "event.progress"):
            self.cursor = params.get("cursor", self.cursor)
        if method != "event.event":
            return None
        event: Event = params["event"]
        return event

    def _ended(self, params: "dict[str, Any]") -> None:
        reason = str(params.get("reason"))
        self.cursor = params.get("cursor", self.cursor)
        if reason == "interrupted":
            self._reconnect()
            return
        self.reason = reason
        self.close()

    def _subscribe(self) -> None:
        params = dict(self._params)
        if self.cursor is not None:
            params["cursor"] = self.cursor
            params.pop("after_seq", None)
        connection = Connection(self._path, _SUBSCRIBE_TIMEOUT_S)
        try:
            result = connection.call("event.subscribe", params, _SUBSCRIBE_TIMEOUT_S)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.cursor = result.get("cursor", self.cursor)

    def _reconnect(self) -> None:
        self.close()
        if self._on_lost is not None:
            self._on_lost()
        deadline = time.monotonic() + self._reconnect_s
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return self._subscribe()
            except (DaemonNotRunning, ConnectionLostError):
                if time.monotonic() + pause > deadline:
                    raise
            except CoachmanError as error:
                if not error.retryable or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)
