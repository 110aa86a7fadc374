"""From a policy to bubblewrap's arguments: a pure function, the shipped filters included."""

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from attrs import asdict, frozen

from . import seccomp
from .finder import Bwrap, BwrapMissing, find_bwrap
from .policy import (
    Bind,
    Cover,
    Dev,
    Directory,
    File,
    Mount,
    Policy,
    PolicyError,
    Proc,
    Symlink,
    Tmpfs,
    access,
)

__all__ = ["Bwrap", "BwrapMissing", "Compiled", "compile_policy", "describe", "find_bwrap"]

# All namespaces but the network's, which the policy may leave to the host.
NAMESPACES = (
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
LIFETIME = ("--die-with-parent", "--new-session")

_TOKEN = re.compile(r"\{fd:\d+\}")


@frozen
class Compiled:
    """``args`` go NUL-separated through ``--args FD``; "{fd:N}" in them stands for ``data[N]``."""

    args: tuple[str, ...]
    data: tuple[bytes, ...]


class _Data:
    """Collects the contents that travel through descriptors."""

    def __init__(self) -> None:
        self.items: list[bytes] = []

    def token(self, content: bytes) -> str:
        self.items.append(content)
        return f"{{fd:{len(self.items) - 1}}}"


def compile_policy(policy: Policy, machine: str = seccomp.MACHINE) -> Compiled:
    """The arguments of one sandbox, in a deterministic order: a parent is mounted before its child.

    Raises PolicyError for paths that are not absolute and plain, two mounts at one
    place, and text that cannot be an argument; FilterMissing where there is no system
    call filter for ``machine``.
    """
    if policy.confinement == "none":
        # Whoever starts it runs the agent itself.
        return Compiled((), ())
    data = _Data()
    args = [*isolation(policy), "--clearenv", *_environment(policy)]
    mounts = ordered(policy.mounts)
    for mount in mounts:
        args += _mount(mount, data)
    # Last, when everything below them is in place.
    for mount in mounts:
        args += _seals(mount)
    walled = policy.confinement == "walls"
    args += [*(_seal("/") if walled else ()), "--chdir", _plain(policy.cwd, "the directory")]
    if policy.system_calls != "none":
        args += ["--seccomp", data.token(seccomp.program(policy.system_calls, machine))]
    return Compiled(tuple(args), tuple(data.items))


def isolation(policy: Policy) -> tuple[str, ...]:
    """The flags that make the walls; `probe` asks the kernel for exactly these."""
    if policy.confinement == "processes":
        return ("--unshare-pid", *LIFETIME)
    nested = () if policy.user_namespaces else ("--disable-userns",)
    hostname = ("--hostname", policy.hostname)
    network = () if policy.network.kind == "host" else ("--unshare-net",)
    return (*NAMESPACES, *network, *nested, *hostname, *LIFETIME, "--cap-drop", "ALL")


def ordered(mounts: tuple[Mount, ...]) -> list[Mount]:
    """Sorted by destination, so that nothing is buried under a later mount of its parent."""
    seen: set[str] = set()
    for mount in mounts:
        where = _plain(mount.destination, "a mount's destination")
        if where in seen:
            raise PolicyError(f"cannot compile the policy: two mounts at {where!r}")
        seen.add(where)
    return sorted(mounts, key=lambda mount: mount.destination.split("/"))


def _environment(policy: Policy) -> Iterator[str]:
    for name, value in sorted(policy.env.items()):
        if not name or "=" in name:
            raise PolicyError(f"cannot compile the policy: {name!r} cannot name a variable")
        yield from ("--setenv", _text(name, "a name"), _text(value, f"the value of {name}"))


def _seals(mount: Mount) -> tuple[str, ...]:
    if isinstance(mount, Dev) or (isinstance(mount, Proc) and mount.read_only):
        return _seal(mount.destination)
    return ()


def _seal(destination: str) -> tuple[str, str]:
    return ("--remount-ro", destination)


def _mount(mount: Mount, data: _Data) -> list[str]:
    where = mount.destination
    match mount:
        case Bind():
            return [_bind_option(mount), _plain(mount.source, "a mount's source"), where]
        case Tmpfs():
            size = str(mount.size_bytes)
            return ["--perms", f"{mount.mode:04o}", "--size", size, "--tmpfs", where]
        case File():
            return ["--perms", f"{mount.mode:04o}", "--file", data.token(mount.content), where]
        case Cover():
            return ["--perms", "0444", "--ro-bind-data", data.token(mount.content), where]
        case Directory():
            return ["--perms", f"{mount.mode:04o}", "--dir", where]
        case Symlink():
            return ["--symlink", _text(mount.target, "a link's target"), where]
        case Proc():
            return ["--proc", where]
        case Dev():
            return ["--dev", where]


def _bind_option(mount: Bind) -> str:
    kind = "--bind" if mount.writable else "--ro-bind"
    if mount.devices:
        kind = "--dev-bind"
    return f"{kind}-try" if mount.optional else kind


def _plain(path: str, what: str) -> str:
    if not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise PolicyError(f"cannot compile the policy: {what} must be absolute, not {path!r}")
    return _text(path, what)


def _text(text: str, what: str) -> str:
    # A token in a value would be replaced by the number of a descriptor.
    if "\0" in text or _TOKEN.search(text):
        raise PolicyError(f"cannot compile the policy: {what} holds a NUL or a {{fd:N}} token")
    return text


def describe(policy: Policy) -> dict[str, Any]:
    """The policy for people and programs: mounts, names of variables, arguments without values."""
    return {
        "profile": policy.profile,
        "digest": policy.digest,
        "network": str(policy.network),
        "confinement": policy.confinement,
        "kill": policy.kill,
        "hostname": policy.hostname,
        "system_calls": {
            "filter": policy.system_calls,
            "sha256": None
            if policy.system_calls == "none"
            else seccomp.digest(policy.system_calls),
        },
        "caps": asdict(policy.caps) if policy.caps else None,
        "cwd": policy.cwd,
        "mounts": [_describe(mount) for mount in ordered(policy.mounts)],
        "environment": [
            {"name": name, "secret": name in policy.credentials} for name in sorted(policy.env)
        ],
        "argv": _without_values(compile_policy(policy).args),
    }


def _describe(mount: Mount) -> dict[str, Any]:
    shown = {
        "kind": type(mount).__name__.lower(),
        "destination": mount.destination,
        "access": access(mount),
        "role": mount.role,
    }
    if isinstance(mount, Bind):
        shown["source"] = mount.source
    return shown


def _without_values(args: tuple[str, ...]) -> list[str]:
    shown = list(args)
    for index, arg in enumerate(args):
        if arg == "--setenv":
            shown[index + 2] = "<value>"
    return shown
