"""The system call filters that ship with coachman, made by scripts/seccomp."""

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Literal

# "strict": what docs/sandbox.md lists. There is one filter a machine.
SystemCalls = Literal["strict", "none"]

MACHINES = ("aarch64", "x86_64")
MACHINE = os.uname().machine

_FILTERS = Path(__file__).with_name("filters")


class FilterMissing(ValueError):  # noqa: N818 - it names a state of the host
    """No filter was made for this architecture; the text says for which there are some."""


@cache
def program(name: SystemCalls, machine: str = MACHINE) -> bytes:
    """Classic BPF, as `bwrap --seccomp` reads it. Raises FilterMissing."""
    try:
        return (_FILTERS / f"{name}.{machine}.bpf").read_bytes()
    except FileNotFoundError:
        known = " and ".join(MACHINES)
        raise FilterMissing(
            f"cannot filter system calls on {machine}: there are filters for {known}"
        ) from None


@cache
def digest(name: SystemCalls, machine: str = MACHINE) -> str:
    """The SHA-256 of a filter in hex. Raises FilterMissing."""
    return hashlib.sha256(program(name, machine)).hexdigest()
