"""Facts of the system: the boot, its clock, and who a process is."""

from __future__ import annotations

import errno
import os
import signal
import time

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PROCESS_NAME = b"coachman-keeper"
KEYCTL_JOIN_SESSION_KEYRING = 1
KEYCTL_NUMBERS = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}


def boot_id() -> str:
    with open(BOOT_ID_PATH, encoding="ascii") as file:
        return file.read().strip()


def boottime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def epoch_ms() -> int:
    return time.time_ns() // 1_000_000


def start_ticks(pid: int) -> int:
    """A process's start time in clock ticks since boot; raises OSError when it is gone."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        # The name may hold anything, parentheses and spaces too.
        return int(file.read().rpartition(b")")[2].split()[19])


def is_inner_init(pid: int) -> bool:
    """Whether a process is number 1 of a PID namespace below ours; OSError when it is gone."""
    with open(f"/proc/{pid}/status", "rb") as file:
        numbers = next((line.split()[1:] for line in file if line.startswith(b"NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == b"1"


def set_process() -> None:
    """Take a name, and keep the user's other processes out of the memory: it holds secrets."""
    import ctypes  # noqa: PLC0415 - most of a millisecond, after the record was checked

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NAME, PROCESS_NAME, 0, 0, 0)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise LaunchError("cannot start the keeper: PR_SET_DUMPABLE was refused")
    leave_keyring(libc)


def hold_descendants() -> None:
    """Become the parent of whatever below us loses its own, and let none of it gain privileges.

    What had more rights than we have could not be signalled.
    """
    import ctypes  # noqa: PLC0415 - as above

    libc = ctypes.CDLL(None, use_errno=True)
    for option in (PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS):
        if libc.prctl(option, 1, 0, 0, 0) != 0:
            raise LaunchError(f"cannot start the agent: prctl {option} was refused")


def die_with_parent() -> None:
    """Be killed when the thread that made this process ends."""
    import ctypes  # noqa: PLC0415 - as above

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def leave_keyring(libc: Any) -> None:
    """Take a session keyring of our own: the login's holds keys that no agent may use or revoke.

    A kernel without keyrings has none to leave.
    """
    number = KEYCTL_NUMBERS.get(os.uname().machine)
    if number is None:
        raise LaunchError("cannot start the keeper: keyctl is not known on this architecture")
    if libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        import ctypes  # noqa: PLC0415 - as above

        if ctypes.get_errno() != errno.ENOSYS:
            raise LaunchError("cannot start the keeper: a keyring of its own was refused")
