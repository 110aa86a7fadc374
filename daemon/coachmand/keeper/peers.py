"""The socket and who is connected to it; one peer at most is attached."""

from __future__ import annotations

import os
import select
import sys

# `socket` costs 5 ms and 0.4 MiB more than the extension that it wraps.
from _socket import AF_UNIX, SO_PEERCRED, SOCK_NONBLOCK, SOCK_STREAM, SOL_SOCKET, socket
from functools import partial

from . import SOCKET_NAME
from .connection import Connection
from .errors import Garbage, Refused
from .files import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .loop import Loop

    Perform = Callable[[Connection, dict[str, Any], bytes], dict[str, Any]]

MAX_PEERS = 8
LISTEN_BACKLOG = 64
ACCEPT_RETRY_S = 1.0


class Peers:
    """All connections. `perform` carries out one request; it returns members or raises Refused."""

    def __init__(self, loop: Loop, directory: int, perform: Perform) -> None:
        self.attached: Connection | None = None
        self._peers: list[Connection] = []
        self._loop = loop
        self._perform = perform
        self._listener = listen(directory)
        self._watch_listener()

    @property
    def unread(self) -> bool:
        """Whether the attached peer has not taken everything yet."""
        return self.attached is not None and bool(self.attached.out)

    def attach(self, peer: Connection, sizes: tuple[int, int]) -> None:
        """Make a peer the attached one; it knows the outputs' sizes from its reply."""
        previous, self.attached = self.attached, peer
        if previous is not None and previous is not peer:
            self._send(previous, {"event": "evicted"})
            self._drop(previous)
        peer.told = sizes

    def announce(self, event: str, **members: Any) -> None:
        if self.attached is not None:
            self._send(self.attached, {"event": event, **members})

    def announce_output(self, sizes: tuple[int, int]) -> None:
        """Tell new sizes, but only who has read everything: the last ones always come."""
        peer = self.attached
        if peer is not None and not peer.out and sizes != peer.told:
            peer.told = sizes
            self.announce("output", stdout=sizes[0], stderr=sizes[1])

    def drop_attached(self) -> None:
        if self.attached is not None:
            self._drop(self.attached)

    def _watch_listener(self) -> None:
        self._loop.watch(self._listener.fileno(), select.EPOLLIN, self._accept)

    def _accept(self) -> None:
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            log(f"cannot accept: {error}")
            self._loop.ignore(self._listener.fileno())
            self._loop.after(ACCEPT_RETRY_S, self._watch_listener)
            return
        if peer_uid(fd) != os.getuid():
            os.close(fd)
            return
        os.set_blocking(fd, False)
        peer = Connection(fd)
        self._peers.append(peer)
        if len(self._peers) > MAX_PEERS:
            self._drop(next(other for other in self._peers if other is not self.attached))
        self._watch(peer)

    def _watch(self, peer: Connection) -> None:
        if peer.fd >= 0:
            mask = select.EPOLLOUT if peer.out else 0
            mask |= 0 if peer.paused else select.EPOLLIN
            self._loop.watch(peer.fd, mask, partial(self._serve, peer))

    def _serve(self, peer: Connection) -> None:
        try:
            alive = peer.flush() and (peer.paused or peer.receive())
            self._answer_all(peer)
        except Garbage as error:
            text = f"cannot read the message: {error}"
            peer.send({"id": None, "ok": False, "error": text, "code": "bad_message"})
            alive = False
        except Exception as error:  # a fault in an answer costs one connection, not the run
            log(f"cannot answer: {error!r}")
            alive = False
        if not (peer.flush() and alive):
            self._drop(peer)
        self._watch(peer)

    def _answer_all(self, peer: Connection) -> None:
        while peer.fd >= 0 and not peer.paused and (pair := peer.next_message()):
            message, body = pair
            reply = {"id": message.get("id"), "ok": True}
            try:
                reply.update(self._perform(peer, message, body))
            except Refused as refused:
                reply.update(ok=False, error=str(refused), code=refused.code, **refused.members)
            peer.send(reply)

    def _send(self, peer: Connection, message: dict[str, Any]) -> None:
        peer.send(message)
        if not peer.flush():
            self._drop(peer)
        self._watch(peer)

    def _drop(self, peer: Connection) -> None:
        if peer is self.attached:
            self.attached = None
        if peer in self._peers:
            self._peers.remove(peer)
            self._loop.close(peer.fd)
            peer.fd = -1


def listen(directory: int) -> socket:
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK)
    before = os.umask(0o177)
    # Through the descriptor, because a socket's address holds 107 bytes of path.
    listener.bind(f"/proc/self/fd/{directory}/{SOCKET_NAME}")
    os.umask(before)
    listener.listen(LISTEN_BACKLOG)
    return listener


def peer_uid(fd: int) -> int:
    """The user at the other end."""
    connection = socket(fileno=fd)
    credentials = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    connection.detach()
    return int.from_bytes(credentials[4:8], sys.byteorder)
