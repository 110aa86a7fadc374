"""What a service manager hands over at the start, and what it is told from then on.

systemd's two protocols, sd_listen_fds(3) and sd_notify(3). Their variables are taken out of the
environment, so that no child speaks in the daemon's name; a re-execution gets them back.
"""

import os
import socket
import stat
from collections.abc import Mapping, MutableMapping

import structlog
from attrs import field, frozen

FIRST_FD = 3
_LISTEN = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
_NOTIFY = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")

log = structlog.get_logger("service")


class HandedError(Exception):
    """What was handed over cannot be used; the text reads "cannot listen: …"."""


@frozen
class Service:
    """The service manager of this process, or none of it.

    ``listener`` is a listening socket that belongs to it, ``watchdog_s`` how long it waits for
    a sign of life, ``variables`` what it had put into the environment.
    """

    notify_path: str | None = None
    watchdog_s: float | None = None
    listener: socket.socket | None = None
    variables: Mapping[str, str] = field(factory=dict)

    @classmethod
    def take(cls, env: MutableMapping[str, str]) -> "Service":
        """Take the variables out of ``env``, and the socket that they name. Raises HandedError."""
        variables = {name: env.pop(name) for name in (*_LISTEN, *_NOTIFY) if name in env}
        return cls(
            variables.get("NOTIFY_SOCKET") or None,
            _watchdog_s(variables),
            _listener(variables),
            variables,
        )

    def tell(self, **facts: str | int) -> None:
        """Send facts such as ``READY=1``. A manager that does not hear is no fault of ours."""
        if self.notify_path is None:
            return
        text = "".join(f"{name}={' '.join(str(value).split())}\n" for name, value in facts.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
                out.sendto(text.encode(), _address(self.notify_path))
        except OSError as error:
            log.warning("manager_does_not_hear", error=str(error), told=text)


def _address(path: str) -> str:
    """A name in the abstract namespace is written with an @ in the environment."""
    return "\0" + path[1:] if path.startswith("@") else path


def _is_ours(variables: Mapping[str, str], name: str) -> bool:
    return variables.get(name) == str(os.getpid())


def _watchdog_s(variables: Mapping[str, str]) -> float | None:
    usec = variables.get("WATCHDOG_USEC", "")
    meant = "WATCHDOG_PID" not in variables or _is_ours(variables, "WATCHDOG_PID")
    return int(usec) / 1e6 if meant and usec.isdecimal() and int(usec) > 0 else None


def _listener(variables: Mapping[str, str]) -> socket.socket | None:
    """The one socket that was passed to this very process."""
    if not _is_ours(variables, "LISTEN_PID"):
        return None
    count = variables.get("LISTEN_FDS", "")
    if count == "0":
        return None
    if count != "1":
        raise HandedError(
            f"cannot listen: {count or 'no known number of'} descriptors were passed, one is taken"
        )
    return listening_socket(FIRST_FD)


def listening_socket(fd: int) -> socket.socket:
    """The listening Unix stream socket that ``fd`` has to be. Raises HandedError."""
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode):
            raise HandedError(f"cannot listen: descriptor {fd} is no socket")
    except OSError as error:
        raise HandedError(f"cannot listen: descriptor {fd} was not passed") from error
    sock = socket.socket(fileno=fd)
    if (wrong := _what_is_wrong(sock)) is not None:
        sock.close()
        raise HandedError(f"cannot listen: descriptor {fd} is {wrong}")
    sock.set_inheritable(False)
    sock.setblocking(False)
    return sock


def _what_is_wrong(sock: socket.socket) -> str | None:
    if sock.family != socket.AF_UNIX:
        return f"{sock.family.name}, not AF_UNIX"
    if sock.type != socket.SOCK_STREAM:
        return f"{sock.type.name}, not SOCK_STREAM"
    if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return "a socket that does not listen"
    if not str(sock.getsockname()).startswith("/"):
        # Without a file it has no mode, and no client looks for it.
        return "a socket without a file"
    return None
