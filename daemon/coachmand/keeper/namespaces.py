"""Listen inside a sandbox's network namespace from out here.

A socket stays in the namespace that it was made in. So a child enters the sandbox's user and
network namespace, makes the listeners there and hands them out; nothing of it stays inside, where
the agent could stop it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os

# `socket` costs 5 ms and 0.4 MiB more than the extension that it wraps.
from _socket import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    CMSG_SPACE,
    SCM_RIGHTS,
    SOCK_CLOEXEC,
    SOCK_SEQPACKET,
    SOCK_STREAM,
    SOL_SOCKET,
    dup,
    socket,
    socketpair,
)

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
NS_GET_USERNS = 0xB701
IPPROTO_IP, IP_FREEBIND = 0, 15
IPPROTO_IPV6, IPV6_V6ONLY, IPV6_FREEBIND = 41, 26, 78
BACKLOG = 128
MAX_LISTENERS = 64


def listen_inside(pid: int, places: list[tuple[str, int]]) -> list[int]:
    """Listeners at these addresses in the network namespace of ``pid``. Raises LaunchError.

    An address of IPv6 is left out (-1) where the machine has none.
    """
    ours, theirs = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
    child = os.fork()
    if child == 0:
        _hand_out(pid, places, theirs)
    theirs.close()
    try:
        message, ancillary, _, _ = ours.recvmsg(4096, CMSG_SPACE(4 * MAX_LISTENERS))
    finally:
        ours.close()
        os.waitpid(child, 0)
    fds = [fd for level, kind, data in ancillary if kind == SCM_RIGHTS for fd in _ints(data)]
    made = list(message[1:])
    if message[:1] != b"+" or sum(made) != len(fds):
        why = os.fsdecode(message[1:]) or "the helper died"
        raise LaunchError(f"cannot reach the sandbox's network: {why}")
    for fd in fds:
        os.set_inheritable(fd, False)
    given = iter(fds)
    return [next(given) if there else -1 for there in made]


def _ints(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) // 4 * 4, 4)]


def _hand_out(pid: int, places: list[tuple[str, int]], out: socket) -> NoReturn:
    """In the child: enter, listen, hand out, vanish."""
    try:
        _enter(pid)
        made = [_listener(*place) for place in places]
        fds = [fd for fd in made if fd >= 0]
        rights = b"".join(fd.to_bytes(4, "little") for fd in fds)
        told = b"+" + bytes(fd >= 0 for fd in made)
        out.sendmsg([told], [(SOL_SOCKET, SCM_RIGHTS, rights)])
    except BaseException as error:
        out.send(b"-" + str(error).encode()[:1000])
    finally:
        os._exit(0)


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    # The one that owns it: bubblewrap makes another below it, in which nothing may be made.
    owner = fcntl.ioctl(network, NS_GET_USERNS)
    for fd, kind in ((owner, CLONE_NEWUSER), (network, CLONE_NEWNET)):
        if libc.setns(fd, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"setns: {os.strerror(number)}")


def _listener(address: str, port: int) -> int:
    is_v6 = ":" in address
    try:
        made = socket(AF_INET6 if is_v6 else AF_INET, SOCK_STREAM | SOCK_CLOEXEC)
    except OSError as error:
        if is_v6 and error.errno == errno.EAFNOSUPPORT:
            return -1
        raise
    # The loopback interface may not be up yet.
    if is_v6:
        made.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
        made.setsockopt(IPPROTO_IPV6, IPV6_FREEBIND, 1)
    else:
        made.setsockopt(IPPROTO_IP, IP_FREEBIND, 1)
    made.bind((address, port))
    made.listen(BACKLOG)
    return dup(made.fileno())
