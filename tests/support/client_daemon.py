"""A daemon of a few scripted answers, for tests of what clients do with them."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coachman import Client, connect
from coachman.wire import ERROR_CODES

ROOT = Path(__file__).parents[2]
COMMAND_TIMEOUT_S = 90.0
RUN = "261129-220417-k7q3x"
HANDLE = "k7q3x"


class FaultError(Exception):
    """An error that the scripted daemon answers with."""

    def __init__(self, name: str, message: str, **data: object) -> None:
        super().__init__(message)
        self.wire = {
            "code": ERROR_CODES[name],
            "message": message,
            "data": {"name": name, **data},
        }


class Peer:
    """One connection as a handler sees it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self.after_reply: list[Callable[[], None]] = []

    def send(self, message: Mapping[str, Any]) -> None:
        # As the real one writes: what may be relied on without a parser.
        data = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        with self._lock:
            self._channel.sendall(data)

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def hang_up(self) -> None:
        self._channel.shutdown(socket.SHUT_RDWR)


Handler = Callable[[dict[str, Any], Peer], dict[str, Any]]


class FakeDaemon:
    """Listens on ``path`` and answers each method with its handler; records every request."""

    def __init__(self, path: Path, handlers: Mapping[str, Handler | dict[str, Any]]) -> None:
        self.path = path
        self.handlers = dict(handlers)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        path.unlink(missing_ok=True)
        self._listener.bind(str(path))
        self._listener.listen()
        self._channels: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> "FakeDaemon":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for channel in self._channels:
            try:
                channel.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in self._threads:
            thread.join(COMMAND_TIMEOUT_S)
        self.path.unlink(missing_ok=True)

    def params(self, method: str) -> list[dict[str, Any]]:
        """What was asked of one method, in order."""
        return [params for name, params in self.requests if name == method]

    def _accept(self) -> None:
        while True:
            try:
                channel, _ = self._listener.accept()
            except OSError:
                return
            self._channels.append(channel)
            thread = threading.Thread(target=self._serve, args=(channel,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, channel: socket.socket) -> None:
        peer = Peer(channel)
        with channel, channel.makefile("rb") as lines:
            try:
                for line in lines:
                    self._answer(peer, json.loads(line))
            except (OSError, ValueError):
                return

    def _answer(self, peer: Peer, request: dict[str, Any]) -> None:
        method, params = request["method"], request["params"]
        self.requests.append((method, params))
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            handler = self.handlers[method]
            reply["result"] = handler(params, peer) if callable(handler) else handler
        except FaultError as fault:
            reply["error"] = fault.wire
        peer.send(reply)
        while peer.after_reply:
            peer.after_reply.pop(0)()


@contextmanager
def served(
    path: Path, handlers: Mapping[str, Handler | dict[str, Any]], timeout: float = COMMAND_TIMEOUT_S
) -> Iterator[tuple[FakeDaemon, Client]]:
    """A scripted daemon and a client that is connected to it."""
    with FakeDaemon(path, handlers) as daemon, connect(str(path), timeout=timeout) as client:
        yield daemon, client


def streaming(
    events: Sequence[Mapping[str, Any]], then: Callable[[Peer], None] | None = None
) -> Handler:
    """Handles `event.subscribe`: sends what lies behind the cursor, then ends (or ``then``)."""

    def subscribe(params: dict[str, Any], peer: Peer) -> dict[str, Any]:
        after = int(params.get("cursor", params.get("after_seq", 0)))

        def send() -> None:
            for event in events:
                if event["seq"] > after:
                    cursor = str(event["seq"])
                    peer.notify("event.event", subscription="s1", cursor=cursor, event=event)
            if then is not None:
                then(peer)
            else:
                peer.notify("event.end", subscription="s1", reason="run_ended")

        peer.after_reply.append(send)
        return {"subscription": "s1", "cursor": str(after)}

    return subscribe


def numbered(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """Events with the envelope that the journal gives them."""
    return [
        {"seq": seq, "ts": 1_795_990_000_000 + seq, "run": RUN, **event}
        for seq, event in enumerate(events, 1)
    ]


def environment(state_dir: Path, **more: str) -> dict[str, str]:
    """What a client process of a test sees."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(state_dir),
        "COACHMAN_STATE_DIR": str(state_dir),
        "COACHMAN_AUTOSTART": "0",
        "TZ": "UTC",
        **more,
    }


def command(*words: str) -> list[str]:
    """An argv that runs the command line from the sources, isolated as the launcher does."""
    start = (
        "import sys; sys.path.append(sys.argv.pop(1));"
        " from coachman.cli.main import main; sys.exit(main())"
    )
    return [sys.executable, "-I", "-S", "-c", start, str(ROOT / "client"), *words]


def coachman(
    state_dir: Path,
    *words: str,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run one command line to its end, with pipes for a terminal."""
    return subprocess.run(
        command(*words),
        input=stdin,
        capture_output=True,
        text=True,
        cwd=cwd or state_dir,
        env={**environment(state_dir), **(env or {})},
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
