"""The Unix socket that clients connect to: made, guarded and removed with care."""

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
import trio

from coachmand.rpc.bounds import OF_CLIENTS, Bounds
from coachmand.rpc.channel import Closing, hang_up
from coachmand.rpc.envelope import encode_error
from coachmand.rpc.errors import RpcError, internal_error
from coachmand.rpc.peer import Credentials, Peer
from coachmand.rpc.registry import Methods

BACKLOG = 128
# Out of descriptors or memory: connections wait in the backlog meanwhile.
ACCEPT_RETRY_S = 0.1
CROWDED_RETRY_S = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_UCRED = struct.Struct("3i")

log = structlog.get_logger("rpc")


class ListenError(Exception):
    """The socket cannot be offered; the text reads "cannot listen on …: …"."""


class Listener:
    """A listening socket at ``path``, open to its owner (and root) alone.

    Use as a context manager: it unlinks the socket at the end, if it is still ours.
    """

    def __init__(
        self,
        path: str,
        passed: socket.socket | None = None,
        *,
        owned: bool = True,
        bounds: Bounds = OF_CLIENTS,
    ) -> None:
        """Bind, the directory being made when missing, or take over what listens at ``path``.

        A ``passed`` socket that is not ``owned`` belongs to a service manager, which removes it.
        Raises ListenError.
        """
        self.path = path
        self.peers: set[Peer] = set()
        self._bounds = bounds
        self._closing = Closing() if bounds.hostile else None
        self._owned = owned
        self._accepting = trio.CancelScope()
        directory, self._name = os.path.split(os.path.abspath(path))
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ListenError(f"cannot listen on {path}: {error.strerror} ({directory})") from error
        try:
            self._check_directory()
            self._sock = self._bind() if passed is None else self._take_over(passed)
        except OSError as error:
            os.close(self._directory)
            raise ListenError(f"cannot listen on {path}: {error.strerror}") from error
        except ListenError:
            os.close(self._directory)
            raise

    def __repr__(self) -> str:
        return f"<Listener {self.path}, {len(self.peers)} connected>"

    def __enter__(self) -> "Listener":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and unlink the socket, unless another one took its place."""
        if self._sock.fileno() == -1:
            return
        # Who is in its backlog may have sent something already.
        hang_up(self._sock, self._closing)
        if self._owned and self._identity() == self._bound:
            os.unlink(self._name, dir_fd=self._directory)
        os.close(self._directory)

    @property
    def is_leaving(self) -> bool:
        """Whether it takes no more connections."""
        return self._accepting.cancel_called

    def detach(self) -> tuple[int, bool]:
        """Let go of the socket, which listens on: its descriptor, and whether we made it."""
        os.close(self._directory)
        return self._sock.detach(), self._owned

    async def leave(self, limit_s: float) -> None:
        """Take no more connections and let each one end after what it asked for was answered.

        Who connects from now on waits in the backlog for whoever listens next.
        """
        self._accepting.cancel()
        async with trio.open_nursery() as nursery:
            for peer in list(self.peers):
                nursery.start_soon(peer.leave, limit_s)

    async def serve(
        self,
        registry: Methods,
        make_context: Callable[[Peer], Any],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve connections until cancelled; each gets ``make_context(peer)`` as its context."""
        async with trio.open_nursery() as nursery:
            task_status.started()
            with self._accepting:
                while True:
                    sock = await self._accept()
                    peer = Peer(sock, registry, _credentials(sock), self._bounds, self._closing)
                    refusal = self._refusal(peer.credentials)
                    if refusal is not None:
                        self._turn_away(sock, peer.credentials, refusal)
                        continue
                    self.peers.add(peer)
                    nursery.start_soon(self._serve_peer, peer, make_context)

    def _refusal(self, who: Credentials) -> RpcError | None:
        """Why they may not connect, if they may not."""
        if not _may_connect(who.uid):
            return RpcError("Denied", f"cannot connect: uid {who.uid} does not own this daemon")
        limit, active = self._bounds.connections, len(self.peers)
        if limit is None or active < limit:
            return None
        return RpcError(
            "Busy",
            f"cannot connect: {active} connections are open on this socket",
            hint="end one of them first",
            retryable=True,
            retry_after_s=CROWDED_RETRY_S,
            detail={"source": "local", "limit": limit, "active": active},
        )

    async def _serve_peer(self, peer: Peer, make_context: Callable[[Peer], Any]) -> None:
        try:
            await peer.serve(make_context)
        except Exception as error:
            # A connection is a fault boundary: it never fells the daemon.
            internal_error(error, "connection")
        finally:
            self.peers.discard(peer)

    def _turn_away(self, sock: socket.socket, who: Credentials, error: RpcError) -> None:
        log.warning("connection_refused", pid=who.pid, uid=who.uid, why=error.name)
        with suppress(OSError):
            sock.send(encode_error(None, error))
        hang_up(sock, self._closing)

    async def _accept(self) -> socket.socket:
        while True:
            if self._closing is not None:
                await self._closing.room()
            await trio.lowlevel.wait_readable(self._sock)
            # Who is accepted after `leave` looked around would be cut off without a word.
            await trio.lowlevel.checkpoint_if_cancelled()
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, ConnectionError):
                continue
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                log.warning("accept_failed", cause=error.strerror, retry_s=ACCEPT_RETRY_S)
                await trio.sleep(ACCEPT_RETRY_S)
                continue
            sock.setblocking(False)
            return sock

    # --- binding ----------------------------------------------------------------

    def _take_over(self, passed: socket.socket) -> socket.socket:
        facts = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            raise ListenError(
                f"cannot listen on {self.path}: the socket that was passed is open to other users;"
                " its unit needs SocketMode=0600"
            )
        self._bound = self._identity()
        return passed

    def _bind(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            # The mode of the unbound socket becomes the file's: no moment is open to others.
            os.fchmod(sock.fileno(), 0o600)
            # Held until we listen, so that nobody takes a socket in between for stale.
            fcntl.flock(self._directory, fcntl.LOCK_EX)
            self._remove_stale()
            sock.bind(self._address())
            sock.listen(BACKLOG)
            self._bound = self._identity()
            fcntl.flock(self._directory, fcntl.LOCK_UN)
        except BaseException:
            sock.close()
            raise
        return sock

    def _check_directory(self) -> None:
        facts = os.fstat(self._directory)
        directory = os.path.dirname(os.path.abspath(self.path))
        if facts.st_uid != os.geteuid():
            raise ListenError(f"cannot listen on {self.path}: {directory} belongs to another user")
        if stat.S_IMODE(facts.st_mode) & 0o077:
            raise ListenError(
                f"cannot listen on {self.path}: {directory} is open to other users; "
                f"use a directory of its own, or chmod 700 {directory}"
            )

    def _remove_stale(self) -> None:
        try:
            facts = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(facts.st_mode):
            raise ListenError(f"cannot listen on {self.path}: a file that is no socket is there")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self._address())
            except ConnectionRefusedError:
                os.unlink(self._name, dir_fd=self._directory)
                return
            except BlockingIOError:
                pass  # Its backlog is full: somebody listens.
        raise ListenError(f"cannot listen on {self.path}: another daemon answers there")

    def _address(self) -> str:
        # A socket address holds 108 bytes; this one is short whatever the path.
        return f"/proc/self/fd/{self._directory}/{self._name}"

    def _identity(self) -> tuple[int, int] | None:
        try:
            facts = os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return facts.st_dev, facts.st_ino


def _credentials(sock: socket.socket) -> Credentials:
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _gid = _UCRED.unpack(raw)
    return Credentials(pid, uid)


def _may_connect(uid: int) -> bool:
    return uid in (0, os.geteuid())
