"""Be a gate: take the orders, listen, write down what was decided, end with the keeper."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys

from .addresses import parse_host
from .connecting import is_local, resolve
from .decisions import Decisions
from .rules import Rules
from .serving import Gate
from .upstream import Upstream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .serving import Serve

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PROCESS_NAME = b"coachman-gate"
# Who waits for a model's answer has a connection; who is parked has none.
IDLE_MS = 30_000
FULL_RETRY_MS = 100


def main() -> int:
    """Serve until SIGTERM, or until nobody was there for a while: then the keeper starts another
    one for whoever comes next. Orders:

    ``parent`` the keeper's pid, ``policy`` as `Rules` takes it, ``log`` and ``notify``
    descriptors, ``listeners``: a descriptor each, with the ``host`` and ``port`` that it leads
    to, or none for the proxy.
    """
    orders = json.load(sys.stdin.buffer)
    if not _become(orders["parent"]):
        return 1
    decisions = Decisions(orders["log"], orders["notify"])
    order = orders["policy"].get("upstream")
    upstream = Upstream(order) if order else None
    rules = Rules(orders["policy"], resolve, is_local, upstream)
    gate = Gate(rules, decisions, upstream)
    listeners = {each["fd"]: _listener(each, gate) for each in orders["listeners"]}
    serve(gate, listeners, _told_to_leave())
    decisions.write_counts()
    # What still streams ends with the sandbox, which is gone.
    os._exit(0)


def serve(gate: Gate, listeners: dict[int, tuple[socket.socket, Serve]], leave: int) -> None:
    """Accept what comes, here and nowhere else: then nobody is accepted by one that leaves."""
    while True:
        poll = select.poll()
        poll.register(leave, select.POLLIN)
        for fd in () if gate.is_full else listeners:
            poll.register(fd, select.POLLIN)
        limit_ms = FULL_RETRY_MS if gate.is_full else IDLE_MS
        ready = [fd for fd, _ in poll.poll(limit_ms)]
        if leave in ready or not (ready or gate.serves):
            return
        for fd in ready:
            gate.accept(*listeners[fd])


def _listener(order: dict[str, Any], gate: Gate) -> tuple[socket.socket, Serve]:
    listener = socket.socket(fileno=order["fd"])
    listener.setblocking(False)
    host = order.get("host")
    return listener, gate.proxy if host is None else gate.pipe(parse_host(host), order["port"])


def _told_to_leave() -> int:
    """What can be read once SIGTERM came."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    signal.signal(signal.SIGTERM, lambda *_: None)
    return read


def _become(parent: int) -> bool:
    """Take a name, shut others out of the memory, and live no longer than the keeper."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NAME, PROCESS_NAME, 0, 0, 0)
    refused = libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) or libc.prctl(
        PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0
    )
    # It may have died before.
    return not refused and os.getppid() == parent
