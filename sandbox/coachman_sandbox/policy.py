"""What an agent may touch, as frozen data; `bubblewrap.compile_policy` turns it into arguments.

A policy names every path of the sandbox: whatever it does not name does not
exist inside. Values of variables and the content of files are held but shown
neither by ``repr`` nor by the digest.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

from .network import HOST_NETWORK, Network
from .seccomp import SystemCalls

# Raised when the same policy data would grant something else.
POLICY_VERSION = 2

# The built-in profile in which no instructions of the user's cross.
SEALED = "sealed"

# What a mount is for. "system": the host's programs and libraries; "runtime": the
# agent's own executable; "place": this run's directories; "extra": what the user let it have
# besides; "mask": hides, grants nothing.
Role = Literal["system", "runtime", "place", "extra", "mask"]

Confinement = Literal["walls", "processes", "none"]


# How a run's processes are ended, and what escapes that.
WHOLE_KILL = "whole: every process ends with the namespace that all of them are in"
WEAKER_KILL = (
    "weaker: what descends from the agent is walked and killed until nothing is left; what"
    " something else starts for it (a service manager, at, cron, a container) is not found, nor,"
    " where the keeper is killed as well, what has cleared its environment and lost its parents"
)


class PolicyError(ValueError):
    """A policy that cannot be compiled; the text says what is wrong with it."""


@frozen
class Bind:
    """A host path, seen inside at ``destination``. ``optional``: left out where it is missing.

    ``devices``: those in it open as they do outside.
    """

    source: str
    destination: str
    writable: bool = False
    role: Role = "system"
    optional: bool = False
    devices: bool = False


@frozen
class Tmpfs:
    """An empty file system in memory of at most ``size_bytes``."""

    destination: str
    size_bytes: int
    mode: int = 0o755
    role: Role = "system"


@frozen
class File:
    """A read-only file of the sandbox's own root."""

    destination: str
    content: bytes = field(repr=lambda content: f"<{len(content)} bytes>")
    mode: int = 0o444
    role: Role = "system"


@frozen
class Cover:
    """A read-only file laid over an existing one of a bound directory."""

    destination: str
    content: bytes = field(repr=lambda content: f"<{len(content)} bytes>")
    role: Role = "place"


@frozen
class Directory:
    """An empty directory of the sandbox's own root, hence read-only."""

    destination: str
    mode: int = 0o755
    role: Role = "system"


@frozen
class Symlink:
    """A symbolic link of the sandbox's own root."""

    target: str
    destination: str
    role: Role = "system"


@frozen
class Proc:
    """A fresh procfs that shows the sandbox's processes only.

    ``read_only``: for root, who owns its files. They are the host's own, so that a changed
    mode of one would change there as well.
    """

    destination: str = "/proc"
    read_only: bool = False
    role: Role = "system"


@frozen
class Dev:
    """A minimal /dev, remounted read-only once everything in it is in place."""

    destination: str = "/dev"
    role: Role = "system"


@frozen
class Caps:
    """What one sandbox may take of the machine. Which of it the kernel holds is the run's to say.

    ``memory_bytes`` and ``tasks`` (threads included) are its processes' at a time,
    ``disk_bytes`` what its directories may grow by. ``oom_score`` is what the kernel adds to
    theirs when it has to end somebody.
    """

    memory_bytes: int
    tasks: int = 1024
    disk_bytes: int = 10 * 1024**3
    oom_score: int = 500


Mount = Bind | Tmpfs | File | Cover | Directory | Symlink | Proc | Dev


@frozen
class Policy:
    """One sandbox. ``credentials`` names the variables of ``env`` whose values are secret.

    ``admitted`` names those that cross because the user says so, and not the agent's adapter;
    ``instructions``: the user's own rules and settings for the agent cross. ``stated_caps`` are
    those of ``caps`` that the user said, rather than the machine.

    With the ``confinement`` "processes" nothing is kept from it: what it starts is in a
    namespace of its own, so that all of it ends with it; with "none" not even that.
    """

    profile: str
    mounts: tuple[Mount, ...]
    cwd: str
    env: Mapping[str, str] = field(factory=dict, repr=lambda env: f"<{len(env)} variables>")
    credentials: frozenset[str] = frozenset()
    network: Network = HOST_NETWORK
    hostname: str = "coachman"
    user_namespaces: bool = False
    system_calls: SystemCalls = "strict"
    caps: Caps | None = None
    confinement: Confinement = "walls"
    admitted: frozenset[str] = frozenset()
    instructions: bool = True
    stated_caps: tuple[str, ...] = ()

    @property
    def kill(self) -> str:
        """How surely what it starts ends with it, in words."""
        return WEAKER_KILL if self.confinement == "none" else WHOLE_KILL

    @property
    def digest(self) -> str:
        """64 hex digits over what the policy grants: the same for every run of equal authority.

        Host paths of the run's directories, values of variables, file contents, the machine's
        caps and the agent's own executable stay out: a private home keyed by the digest
        survives an update of the agent and a change of the machine's memory, and no
        secret can be guessed from it. What a profile of the user's own says is in it whole.
        """
        return hashlib.sha256(digest_input(self)).hexdigest()


def digest_input(policy: Policy) -> bytes:
    """The canonical JSON that the digest is made of."""
    granted = [_grant(mount) for mount in policy.mounts if mount.role in ("place", "extra")]
    document = {
        "version": POLICY_VERSION,
        "profile": policy.profile,
        "network": str(policy.network),
        "hostname": policy.hostname,
        "user_namespaces": policy.user_namespaces,
        "system_calls": policy.system_calls,
        "grants": sorted(granted),
        **_apart(policy),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _apart(policy: Policy) -> dict[str, object]:
    """What is left out where it is as ever, so that digests of old stay what they were."""
    apart: dict[str, object] = {}
    if policy.confinement != "walls":
        apart["confinement"] = policy.confinement
    if policy.admitted:
        apart["admitted"] = sorted(policy.admitted)
    if policy.instructions != (policy.profile != SEALED):
        apart["instructions"] = policy.instructions
    if policy.stated_caps:
        apart["caps"] = {name: getattr(policy.caps, name) for name in policy.stated_caps}
    return apart


def _grant(mount: Mount) -> list[str]:
    where = [mount.destination, access(mount)]
    return [*where, mount.source] if isinstance(mount, Bind) and mount.role == "extra" else where


def access(mount: Mount) -> str:
    """``read-write``, ``read-only`` or ``memory`` (writable, gone with the sandbox)."""
    if isinstance(mount, Tmpfs):
        return "memory"
    return "read-write" if isinstance(mount, Bind) and mount.writable else "read-only"


def contains(outer: str, path: str) -> bool:
    """Whether ``path`` is ``outer`` or lies below it; both absolute and plain."""
    return path == outer or path.startswith(outer.rstrip("/") + "/")


@frozen
class GitView:
    """What the agent sees of the repository: a git ``directory`` made for its run alone."""

    directory: str


@frozen
class Delegate:
    """A run's own socket: the ``directory`` it lies in, the ``client``'s package, its ``python``.

    The directory is bound and not the socket, so that one that is made anew is seen inside.
    """

    directory: str
    client: str
    python: str


@frozen
class Place:
    """Where one run's directories are on the host; all paths absolute.

    ``subfolder`` is the working directory below the workspace ("" or "a/b") and
    must exist there. ``guest`` is coachman's own code, bound at /run/coachman; ``guests`` are
    files of it that are there by their content instead.
    ``state_dir`` is hidden wherever a bound directory contains it. ``delegate`` is
    there where the run may start others. ``extra`` are paths of the host that the user added.
    """

    workspace: str | None
    subfolder: str
    git: GitView | None
    home: str
    scratch: str
    output: str
    inputs: str | None
    guest: str | None
    state_dir: str
    delegate: Delegate | None = None
    extra: tuple[Bind, ...] = ()
    guests: Mapping[str, bytes] = field(factory=dict, repr=lambda files: repr(sorted(files)))


@frozen
class AgentAccess:
    """What one agent needs beyond the place.

    ``binds`` are host paths bound read-only at the same path; ``path`` are
    directories that PATH inside begins with; ``env`` are plain variables,
    ``credentials`` secret ones; ``python`` is the guest programs' interpreter.
    """

    binds: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict, repr=lambda env: repr(sorted(env)))
    credentials: Mapping[str, str] = field(factory=dict, repr=lambda env: repr(sorted(env)))
    python: str | None = None
    path: tuple[str, ...] = ()
