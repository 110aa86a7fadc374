"""The daemon's side of a keeper: talk to it, and all that one needs around that.

docs/keeper-protocol.md describes the messages.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol

import trio
from attrs import define, field

from ... import keeper
from .segments import SegmentReader
from .starting import KeeperError, keeper_alive, kill_orphans, launch, read_exit, read_state

__all__ = [
    "KeeperError",
    "KeeperLink",
    "KeeperWatcher",
    "SegmentReader",
    "keeper_alive",
    "kill_orphans",
    "launch",
    "read_exit",
    "read_state",
]

ATTACH_LIMIT_S = 5.0
REPLY_LIMIT_S = 10.0
QUEUED_REQUESTS = 64
RECEIVE_BYTES = 64 * 1024
# Only an attach reply is long: it carries the values to mask.
MAX_REPLY_BYTES = 64 * 1024 * 1024


class KeeperWatcher(Protocol):
    """What a link tells; called on the trio thread, must neither block nor raise."""

    def output(self, stdout: int, stderr: int) -> None:
        """So many bytes of each stream are in segments now; calls are coalesced."""

    def network(self, size: int) -> None:
        """The gate wrote down something new: so many bytes are in its log."""

    def exited(self, record: dict[str, Any]) -> None:
        """The sandbox ended; the content of exit.json, which is durable."""

    def storage(self, error: str | None, number: int | None) -> None:
        """The disk refuses output, which is kept (errno ``number``); None when it takes it."""

    def gone(self, evicted: bool) -> None:
        """The connection ended: a later generation attached, or the keeper is no more."""


@define
class _Slot:
    """A request that waits for its reply."""

    done: trio.Event = field(factory=trio.Event)
    reply: dict[str, Any] | None = None


class KeeperLink:
    """An attached connection to one keeper. `status` and `mask` are those at attach.

    Requests may be made by several tasks. They raise KeeperError: with the keeper's code, with
    `gone` once the connection ended, with `timeout` after REPLY_LIMIT_S.
    """

    def __init__(self, stream: trio.SocketStream, watcher: KeeperWatcher) -> None:
        self.status: dict[str, Any] = {}
        self.mask: tuple[str, ...] = ()
        self._stream = stream
        self._watcher = watcher
        self._received = bytearray()
        self._ids = count(1)
        self._waiting: dict[int, _Slot] = {}
        self._outgoing, self._to_send = trio.open_memory_channel[bytes](QUEUED_REQUESTS)
        self._scope = trio.CancelScope()
        self._gone = False
        self._evicted = False
        self._closed = False

    def __repr__(self) -> str:
        state = "gone" if self._gone else f"{len(self._waiting)} waiting"
        return f"<KeeperLink generation {self.status.get('generation')}, {state}>"

    @classmethod
    async def attach(
        cls,
        directory: str | os.PathLike[str],
        generation: int,
        watcher: KeeperWatcher,
        nursery: trio.Nursery,
    ) -> "KeeperLink":
        """Connect and become the attached peer; the nursery gets the link's one task.

        Raises KeeperError: `stale_generation`, `gone` (nobody listens) or `timeout`.
        """
        with trio.move_on_after(ATTACH_LIMIT_S):
            link = cls(await _connect(directory), watcher)
            try:
                await link._introduce(generation)
            except BaseException:
                link._stream.socket.close()
                raise
            nursery.start_soon(link._run)
            return link
        raise KeeperError("cannot attach to the keeper: it does not answer", "timeout")

    async def _introduce(self, generation: int) -> None:
        requests = (
            {"op": "hello", "id": 0, "version": keeper.PROTOCOL_VERSION},
            {"op": "attach", "id": 0, "generation": generation},
        )
        for request in requests:
            try:
                await self._stream.send_all(_encode(request))
                message = await self._next_message()
            except (trio.BrokenResourceError, ValueError) as error:
                raise KeeperError(f"cannot attach to the keeper: {error}", "gone") from None
            if message is None:
                raise KeeperError("cannot attach to the keeper: it hung up", "gone")
            reply = _accepted(message)
        self.mask = tuple(reply.pop("mask"))
        self.status = reply

    async def write(self, offset: int, content: bytes) -> int:
        """Hand over stdin from an absolute offset; how much the keeper has taken in all.

        What it took already is ignored, so that sending again is safe.
        """
        taken = offset
        for start in range(0, len(content), keeper.MAX_BODY_BYTES):
            body = content[start : start + keeper.MAX_BODY_BYTES]
            reply = await self.request("write", body, offset=offset + start, size=len(body))
            taken = reply["taken"]
        return taken

    async def close_stdin(self) -> None:
        await self.request("close_stdin")

    async def signal(self, target: str, number: int) -> None:
        """Signal the `agent` itself, or kill the whole `tree`."""
        await self.request("signal", target=target, signal=number)

    async def set_deadline(self, boottime_s: float | None) -> None:
        await self.request("set_deadline", boottime_s=boottime_s)

    async def dismiss(self) -> None:
        """The logs are masked: the keeper may forget the values, and leave once its agent has."""
        await self.request("dismiss")

    async def hold(self) -> None:
        """Let the agent's output wait in its pipes."""
        await self.request("hold")

    async def release(self) -> None:
        """Read on; the watcher is told what the disk still refuses, if anything."""
        reply = await self.request("release")
        if reply["storage_error"] is not None:
            self._watcher.storage(reply["storage_error"], reply["storage_errno"])

    def close(self) -> None:
        """Let go of the keeper without a word; the agent goes on."""
        self._closed = True
        self._scope.cancel()

    async def request(self, operation: str, body: bytes = b"", **members: Any) -> dict[str, Any]:
        """One operation and its reply. A cancelled request may still be carried out."""
        number, slot = next(self._ids), _Slot()
        if self._gone:
            raise _gone(operation)
        self._waiting[number] = slot
        try:
            with trio.move_on_after(REPLY_LIMIT_S):
                message = {"op": operation, "id": number, **members}
                await self._outgoing.send(_encode(message) + body)
                await slot.done.wait()
        except trio.BrokenResourceError:
            raise _gone(operation) from None
        finally:
            del self._waiting[number]
        if slot.reply is None:
            text = f"cannot {operation}: the keeper did not answer within {REPLY_LIMIT_S:.0f} s"
            raise _gone(operation) if self._gone else KeeperError(text, "timeout")
        return _accepted(slot.reply)

    async def _run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_all)
                    await self._receive_all()
                    nursery.cancel_scope.cancel()
        finally:
            self._end()

    async def _send_all(self) -> None:
        # A task of its own: a request that is cancelled midway must not leave half a message.
        async for content in self._to_send:
            try:
                await self._stream.send_all(content)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return

    async def _receive_all(self) -> None:
        try:
            while message := await self._next_message():
                self._dispatch(message)
        except (trio.BrokenResourceError, ValueError):
            return

    async def _next_message(self) -> dict[str, Any] | None:
        """The next message; None at the end. Raises ValueError when it is not one."""
        scanned = 0
        while (end := self._received.find(b"\n", scanned)) < 0:
            scanned = len(self._received)
            if scanned > MAX_REPLY_BYTES:
                raise ValueError("the reply is too long")
            chunk = await self._stream.receive_some(RECEIVE_BYTES)
            if not chunk:
                return None
            self._received += chunk
        message = json.loads(self._received[:end])
        del self._received[: end + 1]
        if not isinstance(message, dict):
            raise ValueError("the reply is not an object")
        return message

    def _dispatch(self, message: dict[str, Any]) -> None:
        match message.pop("event", None):
            case None:
                self._answer(message)
            case "output":
                self._watcher.output(message["stdout"], message["stderr"])
            case "network":
                self._watcher.network(message["size"])
            case "exit":
                self._watcher.exited(message)
            case "storage":
                self._watcher.storage(message["error"], message["errno"])
            case "evicted":
                self._evicted = True

    def _answer(self, message: dict[str, Any]) -> None:
        slot = self._waiting.get(message.get("id", 0))
        if slot is not None:
            slot.reply = message
            slot.done.set()

    def _end(self) -> None:
        self._gone = True
        self._stream.socket.close()
        self._to_send.close()
        for slot in self._waiting.values():
            slot.done.set()
        if not self._closed:
            self._watcher.gone(self._evicted)


async def _connect(directory: str | os.PathLike[str]) -> trio.SocketStream:
    connection = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _held(directory) as fd:
            # Through the descriptor, because a socket's address holds 107 bytes of path.
            await connection.connect(f"/proc/self/fd/{fd}/{keeper.SOCKET_NAME}")
        return trio.SocketStream(connection)
    except OSError as error:
        connection.close()
        text = f"cannot attach to the keeper: {error.strerror}"
        raise KeeperError(text, "gone") from None
    except BaseException:
        connection.close()
        raise


@contextmanager
def _held(directory: str | os.PathLike[str]) -> Iterator[int]:
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _accepted(reply: dict[str, Any]) -> dict[str, Any]:
    """The members of an accepting reply. Raises KeeperError for a refusing one."""
    if reply.pop("ok", False) is not True:
        text = str(reply.get("error", "cannot tell: the keeper gave no reason"))
        code = str(reply.get("code", "unknown"))
        raise KeeperError(text, code, reply.get("taken"), reply.get("errno"))
    reply.pop("id", None)
    return reply


def _gone(operation: str) -> KeeperError:
    return KeeperError(f"cannot {operation}: the keeper is gone", "gone")
