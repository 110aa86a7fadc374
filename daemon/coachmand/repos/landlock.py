"""Confine the calling process to named paths, for good (Landlock, by ctypes)."""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

from coachmand.repos.errors import CONFINEMENT, RepoError

# The numbers are the same on every architecture: these calls are newer than the unified table.
_SYS_CREATE_RULESET, _SYS_ADD_RULE, _SYS_RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

# ABI 1 denies every rename between directories, which is how libgit2 stores an object.
MIN_ABI = 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_DIR, MAKE_REG, MAKE_SYM = 1 << 7, 1 << 8, 1 << 12
REFER, TRUNCATE = 1 << 13, 1 << 14

READ = READ_FILE | READ_DIR
# A directory that is moved counts as made where it arrives.
REMOVE = READ_DIR | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | REFER
WRITE = READ | REMOVE | WRITE_FILE | MAKE_REG | MAKE_SYM | TRUNCATE
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE

# Rights by ABI: 13 at first, REFER from 2, TRUNCATE from 3, IOCTL_DEV from 5, RESOLVE_UNIX later.
_HIGHEST_BIT = {1: 12, 2: 13, 3: 14, 4: 14, 5: 15}
_NEWEST_BIT = 15
_NET_ABI, _SCOPE_ABI = 4, 6
_ALL_NET, _ALL_SCOPES = 0b11, 0b11

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The kernel's Landlock ABI, 0 when it has none or it is switched off."""
    version: int = _libc.syscall(
        _SYS_CREATE_RULESET, None, ctypes.c_size_t(0), _CREATE_RULESET_VERSION
    )
    return max(version, 0)


def handled_rights(version: int) -> int:
    """Every file system right that this ABI knows: what no rule grants is denied."""
    return int((1 << (_HIGHEST_BIT.get(version, _NEWEST_BIT) + 1)) - 1)


def confine(rules: Iterable[tuple[str, int]]) -> None:
    """Deny this process all but ``rules``: pairs of an existing path and rights beneath it.

    The last component of a path is never followed as a link. Descriptors that
    are open already stay usable. TCP, abstract sockets and signals to others
    are denied where the kernel can. Raises RepoError without Landlock.
    """
    version = abi()
    if version < MIN_ABI:
        raise RepoError(
            CONFINEMENT,
            f"cannot confine git: the kernel offers Landlock ABI {version}, {MIN_ABI} is needed",
            "boot Linux 5.19 or newer with landlock in the `lsm=` list",
        )
    ruleset = _create(version)
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights & handled_rights(version))
        _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
        _check(_libc.syscall(_SYS_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _create(version: int) -> int:
    attributes = struct.pack(
        "=QQQ",
        handled_rights(version),
        _ALL_NET if version >= _NET_ABI else 0,
        _ALL_SCOPES if version >= _SCOPE_ABI else 0,
    )
    size = 8 * (1 + (version >= _NET_ABI) + (version >= _SCOPE_ABI))
    return _check(
        _libc.syscall(_SYS_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0),
        "landlock_create_ruleset",
    )


def _allow(ruleset: int, path: str, rights: int) -> None:
    beneath = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            rights &= _FILE_RIGHTS
        rule = struct.pack("=Qi", rights, beneath)
        _check(
            _libc.syscall(_SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0),
            "landlock_add_rule",
        )
    finally:
        os.close(beneath)


def _check(result: int, call: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise RepoError(CONFINEMENT, f"cannot confine git: {call}: {os.strerror(error)}")
    return result
