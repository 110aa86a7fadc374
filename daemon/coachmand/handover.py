"""What shells have lent to runs, from a daemon that restarts in place to the one that it becomes.

It goes in memory that nobody can change any more, which the re-execution leaves open: nothing of it
is ever on a disk, in an argument or in a variable.
"""

import fcntl
import json
import os
from collections.abc import Mapping, MutableMapping

import structlog

# Not an argument: an older build would not start with one that it does not know.
VARIABLE = "COACHMAN_LENT_FD"
FORMAT = 1
NAME = "coachman-lent"
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

Lent = dict[str, dict[str, str]]
log = structlog.get_logger("handover")


def leave(lent: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Leave what was lent, by run, to the program that is executed next: its further variables."""
    if not lent:
        return {}
    fd = os.memfd_create(NAME, os.MFD_ALLOW_SEALING)
    with open(fd, "wb", closefd=False) as file:
        file.write(json.dumps({"format": FORMAT, "lent": lent}).encode())
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    return {VARIABLE: str(fd)}


def take(env: MutableMapping[str, str]) -> Lent:
    """What the daemon that we were had left, by run; neither variable nor memory is left behind."""
    text = env.pop(VARIABLE, None)
    if text is None:
        return {}
    try:
        return _read(int(text))
    except (OSError, ValueError, LookupError, TypeError) as error:
        # Runs that lack something wait for somebody who lends it again.
        log.warning("lent_not_taken", cause=type(error).__name__)
        return {}


def _read(fd: int) -> Lent:
    # The variable may be somebody else's: a file of theirs is not ours to read or close.
    if not os.readlink(f"/proc/self/fd/{fd}").startswith(f"/memfd:{NAME} "):
        raise ValueError(fd)
    with open(fd, "rb") as file:
        file.seek(0)
        found = json.load(file)
    if found["format"] != FORMAT:
        raise ValueError(found["format"])
    return {str(run): dict(values) for run, values in found["lent"].items()}
