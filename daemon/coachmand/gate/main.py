"""Be a gate: take the orders, listen, write down what was decided, end with the keeper."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import threading

from .addresses import parse_host
from .connecting import is_local, resolve
from .decisions import Decisions
from .rules import Rules
from .serving import Gate

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PROCESS_NAME = b"coachman-gate"


def main() -> int:
    """Serve until SIGTERM; the counts are written then. Orders:

    ``parent`` the keeper's pid, ``policy`` as `Rules` takes it, ``log`` and ``notify``
    descriptors, ``listeners``: a descriptor each, with the ``host`` and ``port`` that it leads
    to, or none for the proxy.
    """
    orders = json.load(sys.stdin.buffer)
    if not _become(orders["parent"]):
        return 1
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    decisions = Decisions(orders["log"], orders["notify"])
    gate = Gate(Rules(orders["policy"], resolve, is_local), decisions)
    for each in orders["listeners"]:
        listener = socket.socket(fileno=each["fd"])
        listener.setblocking(True)
        host = each.get("host")
        serve = gate.proxy if host is None else gate.pipe(parse_host(host), each["port"])
        threading.Thread(target=gate.accept, args=(listener, serve), daemon=True).start()
    signal.sigwait({signal.SIGTERM})
    decisions.write_counts()
    # What still streams ends with the sandbox, which is gone.
    os._exit(0)


def _become(parent: int) -> bool:
    """Take a name, shut others out of the memory, and live no longer than the keeper."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NAME, PROCESS_NAME, 0, 0, 0)
    refused = libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) or libc.prctl(
        PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0
    )
    # It may have died before.
    return not refused and os.getppid() == parent
