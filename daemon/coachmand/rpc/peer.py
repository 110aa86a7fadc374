"""One connection: reads requests, runs handlers, answers, streams events."""

import select
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
from attrs import frozen
from jsonrpcserver.request import Request
from jsonrpcserver.sentinels import NOID

from coachmand.rpc.bounds import OF_CLIENTS, Bounds
from coachmand.rpc.channel import Channel, Closing
from coachmand.rpc.descriptors import Dealer, handing
from coachmand.rpc.envelope import Refusal, encode_error, encode_notification, encode_result, parse
from coachmand.rpc.errors import RpcError, as_rpc_error
from coachmand.rpc.lines import LineSplitter, LineTooLongError
from coachmand.rpc.outbox import Outbox
from coachmand.rpc.registry import Method, Methods

if TYPE_CHECKING:
    from collections.abc import Callable

READ_BYTES = 64 * 1024
# A client that reads it knows that what was not answered before was not carried out.
LEAVING = encode_notification("daemon.leaving", {"reason": "restart"})
# How long a client that sent too long a line may take to stop and read the refusal.
LINGER_S = 2.0
BUSY_RETRY_S = 0.1
CANCEL_METHOD = "$/cancelRequest"


@frozen
class Credentials:
    """Who is at the other end of the socket, as the kernel says."""

    pid: int
    uid: int


class Peer:
    """A connected client.

    ``on_close`` holds what is called when the connection ends, however it ends.
    ``nursery`` runs requests and subscriptions; a client that half-closes keeps it
    until its last task is done, one that hangs up has it cancelled at once.
    """

    nursery: trio.Nursery

    def __init__(
        self,
        sock: socket.socket,
        registry: Methods,
        credentials: Credentials,
        bounds: Bounds = OF_CLIENTS,
        closing: Closing | None = None,
    ) -> None:
        self.credentials = credentials
        self.bounds = bounds
        self.context: Any = None
        self.on_close: list[Callable[[], None]] = []
        # What of events is for the one at the other end.
        self.veil: Callable[[bytes], bytes] = lambda lines: lines
        self._sock = sock
        self._channel = Channel(sock, closing)
        self._dealer = Dealer()
        self._held = 0
        self._registry = registry
        self._outbox = Outbox(sock)
        self._in_flight: dict[Any, trio.CancelScope] = {}
        self._waits: set[Any] = set()
        self._connection = trio.CancelScope()
        self._leaving = False
        self._answered = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Peer pid {self.credentials.pid}, {len(self._in_flight)} in flight>"

    async def send_events(self, lines: bytes) -> None:
        """Send whole lines after every reply. Waits while 1 MiB is unsent; never fails.

        A handler that starts a subscription in ``nursery`` answers first if it
        returns without awaiting anything more.
        """
        await self._outbox.put_events(self.veil(lines))

    async def serve(self, make_context: "Callable[[Peer], Any]") -> None:
        """Serve the connection until it ends, then close the socket.

        Every handler is handed ``make_context(self)``.
        """
        try:
            self.context = make_context(self)
            with self._connection:
                await self._serve()
        finally:
            self._channel.drop(self._dealer.rest())
            self._channel.close()
            for callback in self.on_close:
                callback()

    async def _serve(self) -> None:
        async with trio.open_nursery() as connection:
            connection.start_soon(self._send_until_gone, connection.cancel_scope)
            async with trio.open_nursery() as self.nursery:
                await self._receive(connection)
            await self._outbox.drained()
            connection.cancel_scope.cancel()

    async def leave(self, limit_s: float) -> None:
        """Answer what was asked, say that nothing more will be, and hang up.

        Long polls are dropped unanswered. What is not done within ``limit_s`` is cancelled, and
        its client not told that it might ask again.
        """
        self._leaving = True
        with trio.move_on_after(limit_s):
            while self._in_flight.keys() - self._waits:
                await self._answered.park()
            self._outbox.put_reply(LEAVING)
            self._outbox.flush()
            with trio.move_on_after(LINGER_S):
                await self._outbox.drained()
        self._connection.cancel()

    # --- reading ----------------------------------------------------------------

    async def _receive(self, connection: trio.Nursery) -> None:
        splitter = LineSplitter(self.bounds.line_bytes)
        try:
            while await self._receive_some(splitter):
                pass
            await self._take_all([splitter.rest()], [self._dealer.rest()])
        except LineTooLongError:
            await self._refuse_long_line()
            connection.cancel_scope.cancel()
        except ConnectionError:
            connection.cancel_scope.cancel()
        else:
            connection.start_soon(self._watch_for_hangup, connection.cancel_scope)

    async def _receive_some(self, splitter: LineSplitter) -> bool:
        """Take the requests that came, each with its descriptors; False at the end."""
        chunk, came = await self._channel.receive(READ_BYTES)
        try:
            lines = splitter.feed(chunk)
        except LineTooLongError:
            self._channel.drop(came)
            raise
        dealt = self._dealer.deal(len(lines), came, ends_line=chunk.endswith(b"\n"))
        await self._take_all(lines, dealt)
        return bool(chunk)

    async def _take_all(self, lines: list[bytes], dealt: list[list[int]]) -> None:
        for line, descriptors in zip(lines, dealt, strict=True):
            if line and not line.isspace() and not self._leaving:
                self._take(line, descriptors)
            else:
                self._channel.drop(descriptors)
            await self._outbox.room_for_replies()
        self._outbox.flush()

    def _take(self, line: bytes, descriptors: list[int]) -> None:
        parsed = parse(line)
        if isinstance(parsed, Refusal):
            self._channel.drop(descriptors)
            if not parsed.silent:
                self._outbox.put_reply(encode_error(parsed.id, parsed.error))
        elif parsed.method == CANCEL_METHOD:
            self._channel.drop(descriptors)
            self._cancel(parsed)
        else:
            self._dispatch(parsed, tuple(descriptors))

    def _dispatch(self, request: Request, descriptors: tuple[int, ...]) -> None:
        try:
            method = self._registry.find(request.method)
            if descriptors:
                self._check_descriptors(method, len(descriptors))
            if method.inline:
                self._reply(request, self._registry.call(self.context, request))
            else:
                self._admit(request, descriptors)
        except RpcError as error:
            self._channel.drop(descriptors)
            self._refuse(request, error)

    def _check_descriptors(self, method: Method, count: int) -> None:
        if not method.descriptors:
            text = f"cannot call {method.name}: {count} descriptors came with it, and it takes none"
            raise RpcError("InvalidRequest", text)
        limit = self.bounds.descriptors
        if count > limit:
            text = f"cannot accept the request: more than {limit} descriptors came with it"
            raise RpcError("InvalidRequest", text, detail={"limit": limit, "active": count})
        if self._held + count > limit:
            raise RpcError(
                "Busy",
                f"cannot accept the request: {self._held} descriptors are held on this connection",
                hint="wait for an answer",
                retryable=True,
                retry_after_s=BUSY_RETRY_S,
                detail={"source": "local", "limit": limit, "active": self._held},
            )

    # --- handlers in tasks ------------------------------------------------------

    def _admit(self, request: Request, descriptors: tuple[int, ...]) -> None:
        key = object() if request.id is NOID else request.id
        if key in self._in_flight:
            raise RpcError("InvalidRequest", f"cannot accept: id {key!s:.40} is in flight already")
        if len(self._in_flight) >= self.bounds.in_flight:
            raise _busy(len(self._in_flight), self.bounds.in_flight)
        scope = self._in_flight[key] = trio.CancelScope()
        if self._registry.find(request.method).waits:
            self._waits.add(key)
        self._held += len(descriptors)
        self.nursery.start_soon(self._carry, request, key, scope, descriptors, name=request.method)

    async def _carry(
        self, request: Request, key: Any, scope: trio.CancelScope, descriptors: tuple[int, ...]
    ) -> None:
        """Carry out a request with what came along with it, which is closed behind it."""
        try:
            with handing(descriptors):
                await self._run(request, key, scope)
        finally:
            self._held -= len(descriptors)
            self._channel.drop(descriptors)

    async def _run(self, request: Request, key: Any, scope: trio.CancelScope) -> None:
        result = None
        try:
            with scope:
                result = await self._registry.call_async(self.context, request)
        except Exception as error:
            self._forget(key)
            self._refuse(request, as_rpc_error(error, request.method))
        else:
            self._forget(key)
            if scope.cancelled_caught:
                self._refuse(request, _cancelled(request))
            else:
                self._reply(request, result)
        self._outbox.flush()

    def _forget(self, key: Any) -> None:
        del self._in_flight[key]
        self._waits.discard(key)
        self._answered.unpark_all()

    def _cancel(self, request: Request) -> None:
        target = request.params.get("id") if isinstance(request.params, dict) else None
        scope = self._in_flight.get(target) if type(target) in (int, str) else None
        if scope is not None:
            scope.cancel()
        self._reply(request, {})

    # --- answering --------------------------------------------------------------

    def _reply(self, request: Request, result: Any) -> None:
        if request.id is NOID:
            return
        try:
            line = encode_result(request.id, result)
        except Exception as error:
            line = encode_error(request.id, as_rpc_error(error, request.method))
        self._outbox.put_reply(line)

    def _refuse(self, request: Request, error: RpcError) -> None:
        if request.id is not NOID:
            self._outbox.put_reply(encode_error(request.id, error))

    async def _refuse_long_line(self) -> None:
        limit_mib = self.bounds.line_bytes // 2**20
        error = RpcError("InvalidRequest", f"cannot accept the line: it exceeds {limit_mib} MiB")
        self._outbox.put_reply(encode_error(None, error))
        self._outbox.flush()
        with trio.move_on_after(LINGER_S), suppress(OSError):
            await self._outbox.drained()
            self._sock.shutdown(socket.SHUT_WR)
            # Closing with bytes unread would reset the connection under the reply.
            while (received := await self._channel.receive(READ_BYTES))[0]:
                self._channel.drop(received[1])

    # --- ending -----------------------------------------------------------------

    async def _send_until_gone(self, scope: trio.CancelScope) -> None:
        await self._outbox.run()
        scope.cancel()

    async def _watch_for_hangup(self, scope: trio.CancelScope) -> None:
        """A half-closed client stays readable for ever; only HUP tells that it is gone."""
        with select.epoll() as watcher:
            watcher.register(self._sock.fileno(), 0)
            await trio.lowlevel.wait_readable(watcher.fileno())
        scope.cancel()


def _busy(active: int, limit: int) -> RpcError:
    return RpcError(
        "Busy",
        f"cannot accept the request: {active} are in flight on this connection",
        hint="wait for an answer, or open another connection",
        retryable=True,
        retry_after_s=BUSY_RETRY_S,
        detail={"source": "local", "limit": limit, "active": active},
    )


def _cancelled(request: Request) -> RpcError:
    return RpcError("Cancelled", f"cannot finish {request.method}: the client cancelled it")
