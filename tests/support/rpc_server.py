"""A control socket with its own loop in a thread, and a client of plain blocking sockets."""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import trio
from attrs import define, field, frozen

from coachmand.rpc.envelope import encode_notification
from coachmand.rpc.errors import RpcError
from coachmand.rpc.listener import Listener
from coachmand.rpc.peer import Peer
from coachmand.rpc.registry import Registry

CLIENT_TIMEOUT_S = 60.0


@define
class Context:
    """What the methods below are handed: the connection, and what happened on it."""

    peer: Peer
    log: list[str]
    gate: trio.Event


@frozen
class Text:
    """A text to send back."""

    text: str
    times: int = 1


@frozen
class Stream:
    """How many notifications of which size, in batches of how many."""

    count: int
    size: int = 100
    batch: int = 100
    start: bool = True


@frozen
class Echoed:
    """The text as often as asked, and nothing else."""

    texts: list[str]
    note: str | None = None


def registry() -> Registry:
    """Methods that do what a test needs of a handler."""
    made = Registry()
    for add in (_answering, _waiting, _faulty, _streaming):
        add(made)
    return made


def _answering(made: Registry) -> None:
    @made.method("daemon.ping", summary="Answer at once")
    def ping(_context: Context, _params: Any) -> dict[str, Any]:
        return {}

    @made.method("test.echo", params=Text, result=Echoed, summary="Answer with the text")
    async def echo(_context: Context, params: Text) -> Echoed:
        return Echoed([params.text] * params.times)

    @made.method("test.large", params=Text, summary="Answer inline with a large text")
    def large(_context: Context, params: Text) -> dict[str, str]:
        return {"text": params.text * params.times}


def _waiting(made: Registry) -> None:
    @made.method("test.wait", summary="Wait for the gate")
    async def wait(context: Context, _params: Any) -> dict[str, Any]:
        context.log.append("waiting")
        try:
            await context.gate.wait()
        except trio.Cancelled:
            context.log.append("cancelled")
            raise
        return {"waited": True}

    @made.method("test.open", summary="Open the gate")
    async def open_gate(context: Context, _params: Any) -> dict[str, Any]:
        context.gate.set()
        return {}


def _faulty(made: Registry) -> None:
    @made.method("test.refuse", summary="Refuse from within two nurseries")
    async def refuse(_context: Context, _params: Any) -> None:
        async with trio.open_nursery() as outer, trio.open_nursery() as inner:
            outer.start_soon(trio.sleep_forever)
            inner.start_soon(_refuse)

    @made.method("test.break", summary="Fail with an exception of its own")
    def fail(_context: Context, _params: Any) -> None:
        raise LookupError("the secret word is swordfish")

    @made.method("test.break_later", summary="Fail in a task")
    async def fail_later(_context: Context, _params: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fail)

    @made.method("test.unserializable", summary="Return what JSON has no word for")
    def unserializable(_context: Context, _params: Any) -> Any:
        return {"it": object()}

    @made.method("test.surrogate", summary="Return a file name that is no UTF-8")
    def surrogate(_context: Context, _params: Any) -> Any:
        return {"name": "caf\udce9"}


def _streaming(made: Registry) -> None:
    @made.method("test.stream", params=Stream, summary="Send numbered notifications")
    async def stream(context: Context, params: Stream) -> dict[str, Any]:
        if params.start:
            context.peer.nursery.start_soon(_stream, context, params)
        return {"subscription": "s1"}

    @made.method("test.stream_broken", summary="Send a notification, then fail")
    def stream_broken(context: Context, _params: Any) -> dict[str, Any]:
        context.peer.nursery.start_soon(_break_the_stream, context)
        return {"subscription": "s2"}


async def _refuse() -> None:
    raise RpcError(
        "Conflict", "cannot go on: somebody was faster", hint="look", next=[["coachman", "list"]]
    )


async def _fail() -> None:
    raise LookupError("the secret word is swordfish")


async def _break_the_stream(context: Context) -> None:
    await context.peer.send_events(encode_notification("event.event", {"n": 0}))
    raise LookupError("the secret word is swordfish")


async def _stream(context: Context, params: Stream) -> None:
    text = "x" * params.size
    try:
        for start in range(0, params.count, params.batch):
            numbers = range(start, min(start + params.batch, params.count))
            lines = (encode_notification("event.event", {"n": n, "text": text}) for n in numbers)
            await context.peer.send_events(b"".join(lines))
            context.log.append(f"sent {numbers[-1] + 1}")
    finally:
        context.log.append("stream over")


@define
class Server:
    """Runs a listener at ``path`` until the block ends."""

    path: Path
    registry: Registry = field(factory=registry)
    log: list[str] = field(factory=list)
    listener: Listener | None = None
    gate: trio.Event = field(factory=trio.Event)
    token: Any = None
    _ready: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread | None = None
    _scope: Any = None

    def __enter__(self) -> Self:
        self.listener = Listener(str(self.path))
        self._thread = threading.Thread(target=trio.run, args=(self._main,))
        self._thread.start()
        assert self._ready.wait(CLIENT_TIMEOUT_S)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.token.run_sync_soon(self._scope.cancel)
        self._thread.join(CLIENT_TIMEOUT_S)
        assert not self._thread.is_alive()

    def do(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` on the server's loop."""
        return trio.from_thread.run_sync(work, trio_token=self.token)

    def client(self) -> "Client":
        """A new connection."""
        return Client(self.path)

    async def _main(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        with self.listener, trio.CancelScope() as self._scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(
                    self.listener.serve,
                    self.registry,
                    lambda peer: Context(peer, self.log, self.gate),
                )
                self._ready.set()
                # Also where the listener has left.
                await trio.sleep_forever()


class Client:
    """A raw client: bytes out, lines in."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(CLIENT_TIMEOUT_S)
        self.sock.connect(str(path))
        self._file = self.sock.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send raw bytes."""
        self.sock.sendall(data)

    def request(self, method: str, params: Any = None, request_id: Any = 1) -> None:
        """Send one request; ``request_id`` None makes it a notification."""
        document = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if request_id is not None:
            document["id"] = request_id
        self.send(json.dumps(document).encode() + b"\n")

    def read(self) -> dict[str, Any]:
        """The next line as JSON; fails at the end of the stream."""
        line = self._file.readline()
        assert line.endswith(b"\n"), f"the connection ended: {line!r}"
        return json.loads(line)

    def call(self, method: str, params: Any = None, request_id: Any = 1) -> dict[str, Any]:
        """Send a request and read the next line."""
        self.request(method, params, request_id)
        return self.read()

    def at_end(self) -> bool:
        """True when the server has closed and nothing more came."""
        return self._file.read(1) == b""
