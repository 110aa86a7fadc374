"""What a forked process owes its parent."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Be killed when the parent ends; call first thing after a fork."""
    parent = os.getppid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def forbid_tracing() -> None:
    """No other process of the user may read this one's memory."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
