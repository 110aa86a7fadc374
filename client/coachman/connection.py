"""One blocking connection to the daemon: newline-delimited JSON-RPC 2.0.

Works on ``_socket`` and not on ``socket``: the pure-Python half (with
``selectors`` and ``enum`` tables) costs a short command 4 ms of its 20.
"""

import errno
import json
import os
import time
from _socket import AF_UNIX, MSG_PEEK, SCM_RIGHTS, SOCK_CLOEXEC, SOCK_STREAM, SOL_SOCKET
from _socket import socket as Socket  # noqa: N812 - a class, whatever its spelling

from .errors import CoachmanError, ConnectionLostError, DaemonNotRunning, UsageError, from_wire
from .wire import MAX_REQUEST_LINE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# sun_path holds 108 bytes with its terminator.
SUN_PATH_BYTES = 107
_RECEIVE_BYTES = 256 * 1024
_CROWDED_S = 5.0
# Behind it come no more answers: what is unanswered by then was not carried out.
LEAVING = "daemon.leaving"
_PAUSE_S = 0.02
_NOBODY_LISTENS = (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR)


def connect_unix(path: str, timeout_s: float | None) -> Socket:
    """A stream socket connected to ``path``, however long the path is.

    Raises DaemonNotRunning where nobody listens, CoachmanError (``Denied``)
    where the caller may not connect.
    """
    try:
        channel = Socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    except OSError as error:
        raise _connect_error(path, error) from None
    try:
        channel.settimeout(timeout_s)
        with_short_path(path, lambda name: _connect(channel, name))
    except OSError as error:
        channel.close()
        raise _connect_error(path, error) from None
    except BaseException:
        channel.close()
        raise
    return channel


def _connect(channel: Socket, name: str) -> None:
    """Connect; a daemon whose queue of callers is full for a moment is asked again."""
    until = time.monotonic() + _CROWDED_S
    while True:
        try:
            return channel.connect(name)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(_PAUSE_S)


def with_short_path(path: str, use: "Any") -> None:
    """Call ``use`` (a socket's ``bind`` or ``connect``) with a name for ``path`` that fits."""
    if len(os.fsencode(path)) <= SUN_PATH_BYTES:
        use(path)
        return
    parent, name = os.path.split(path)
    directory = os.open(parent or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)


def _connect_error(path: str, error: OSError) -> CoachmanError:
    if error.errno in _NOBODY_LISTENS:
        return _nobody(path)
    if error.errno in (errno.EPERM, errno.EAFNOSUPPORT):
        from .confinement import around

        agent, whose, help_ = around(os.environ)
        code = errno.errorcode[error.errno]
        return CoachmanError(
            f"cannot connect to {path}: {whose} blocks Unix sockets ({code})",
            name="Denied",
            hint=help_,
            detail={"sandbox": agent, "errno": code},
        )
    return CoachmanError(
        f"cannot connect to {path}: {os.strerror(error.errno) if error.errno else error}",
        name="Denied" if error.errno == errno.EACCES else "InternalError",
        hint="the socket must belong to you; COACHMAN_SOCKET or --socket names another",
    )


def _nobody(path: str) -> DaemonNotRunning:
    """Nobody listens; what helps depends on who chose the path, and why is what is left to tell."""
    from .autostart import may_start
    from .confinement import around
    from .lifetime import last_end
    from .paths import socket_path, state_dir

    start = ["coachman", "daemon", "start"]
    unnamed = {name: value for name, value in os.environ.items() if name != "COACHMAN_SOCKET"}
    if path == os.environ.get("COACHMAN_SOCKET"):
        # With the variable set, `daemon start` refuses: it cannot choose where to listen.
        hint = "COACHMAN_SOCKET names it, so none is started there: unset it to use your own daemon"
        steps = [["env", "-u", "COACHMAN_SOCKET", *start]]
    elif path != socket_path(unnamed):
        hint, steps = "its path was chosen: start the daemon that is to listen there", []
    elif may_start(unnamed):
        hint, steps = (
            "verbs that start work start one; so do `coachman daemon start` and, in Python, "
            "connect(autostart=True)",
            [start],
        )
    else:
        hint, steps = "COACHMAN_AUTOSTART is off; `coachman daemon start` starts one", [start]
    agent, whose, _ = around(os.environ)
    if agent is not None and steps:
        hint, steps = f"start one in a shell outside of {whose}: `coachman daemon start`", []
    # Of a socket that was chosen nobody knows the state directory.
    end = last_end(state_dir(os.environ)) if path == socket_path(unnamed) else None
    return DaemonNotRunning(
        f"cannot connect: no daemon listens on {path}" + (f": {end['message']}" if end else ""),
        hint=hint,
        retryable=True,
        detail={"last_end": end} if end else None,
        next=steps,
    )


class Connection:
    """Requests out, messages in. Not for several threads at once."""

    def __init__(self, path: str, timeout_s: float | None) -> None:
        self._channel = connect_unix(path, timeout_s)
        self._buffer = bytearray()
        self._searched = 0
        self._last_id = 0
        self._leaving = False

    def __repr__(self) -> str:
        return f"<Connection fd={self._channel.fileno()} sent={self._last_id}>"

    def fileno(self) -> int:
        return self._channel.fileno()

    def close(self) -> None:
        self._channel.close()

    def alive(self) -> bool:
        """False once the daemon has hung up; never waits."""
        if self._channel.fileno() < 0:
            return False
        # A flag alone would not do: with a timeout set, recv polls before it looks.
        self._channel.settimeout(0.0)
        try:
            return self._channel.recv(1, MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def send(
        self,
        method: str,
        params: "Mapping[str, object]",
        timeout_s: float | None,
        descriptors: "Sequence[int]" = (),
    ) -> int:
        """Send one request, with descriptors along, and return its id."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        line = json.dumps(request, separators=(",", ":")).encode("ascii") + b"\n"
        if len(line) > MAX_REQUEST_LINE_BYTES:
            raise UsageError(
                f"cannot send {method}: {len(line)} bytes are more than the"
                f" {MAX_REQUEST_LINE_BYTES} a request may have",
                hint="put the bulk into a file and name it in the prompt",
            )
        try:
            self._channel.settimeout(timeout_s)
            if descriptors:
                # They are of the line in which the bytes end that they come with.
                self._channel.sendall(line[:-1])
                self._channel.sendmsg([line[-1:]], [(SOL_SOCKET, SCM_RIGHTS, _packed(descriptors))])
            else:
                self._channel.sendall(line)
        except TimeoutError:
            raise _timeout(method, timeout_s) from None
        except OSError as error:
            raise _lost(error) from None
        return self._last_id

    def receive(self, timeout_s: float | None) -> "dict[str, Any] | None":
        """The next message; None when none is complete within ``timeout_s``.

        Raises ConnectionLostError at the end of the stream.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (line := self._take_line()) is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._fill(left):
                return None
        return _decode(line)

    def buffered(self) -> bool:
        """Whether a whole message is here already, so that waiting would be wrong."""
        return self._buffer.find(b"\n", self._searched) >= 0

    def call(
        self,
        method: str,
        params: "Mapping[str, object]",
        timeout_s: float | None,
        descriptors: "Sequence[int]" = (),
    ) -> "dict[str, Any]":
        """One request and its result; raises the error that the daemon answered with."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            identity = self.send(method, params, timeout_s, descriptors)
        except ConnectionLostError as error:
            # The line's end never arrived.
            error.untaken = True
            raise
        try:
            return self._answer(identity, method, timeout_s, deadline)
        except ConnectionLostError as error:
            error.untaken = self._leaving
            raise

    def _answer(
        self, identity: int, method: str, timeout_s: float | None, deadline: float | None
    ) -> "dict[str, Any]":
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            message = self.receive(left)
            if message is None:
                raise _timeout(method, timeout_s)
            if message.get("method") == LEAVING:
                self._leaving = True
            if (answer := answer_to(identity, message)) is not None:
                return answer

    def _take_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _fill(self, timeout_s: float | None) -> bool:
        try:
            self._channel.settimeout(timeout_s)
            data = self._channel.recv(_RECEIVE_BYTES)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError as error:
            raise _lost(error) from None
        if not data:
            raise _lost(None)
        self._buffer += data
        return True


def _packed(descriptors: "Sequence[int]") -> bytes:
    import struct

    return struct.pack(f"{len(descriptors)}i", *descriptors)


def answer_to(identity: int, message: "dict[str, Any]") -> "dict[str, Any] | None":
    """The result in ``message`` if it answers ``identity``; raises if it is an error."""
    if "method" in message or message.get("id") not in (identity, None):
        return None
    if "error" in message:
        raise from_wire(message["error"])
    result = message.get("result")
    return result if isinstance(result, dict) else {"result": result}


def _decode(line: bytes) -> "dict[str, Any]":
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise CoachmanError(
            "cannot understand the daemon: it sent a line that is no JSON object",
            hint="something other than coachmand may listen on this socket",
        )
    return message


def _lost(error: OSError | None) -> ConnectionLostError:
    cause = os.strerror(error.errno) if error is not None and error.errno else "it hung up"
    return ConnectionLostError(
        f"cannot hear from the daemon: {cause}",
        hint="its runs go on without it; ask again once it is back",
        retryable=True,
        next=[["coachman", "status"]],
    )


def _timeout(method: str, timeout_s: float | None) -> CoachmanError:
    return CoachmanError(
        f"cannot {method}: the daemon did not answer within {timeout_s:g} s",
        name="Timeout",
        retryable=True,
    )
