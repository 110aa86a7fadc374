"""What this machine says of itself, as far as it explains why walls cannot be built."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from attrs import frozen

from .host import read_small

Container = Literal["docker", "podman", "kubernetes", "lxc", "other"]

# Mounts below /proc that a plain host has as well.
_ORDINARY = ("/proc", "/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd")
_FIELD = re.compile(r"^(\w+)=[\"']?([^\"'\n]*)[\"']?$", re.MULTILINE)
_OCTAL = re.compile(r"\\([0-7]{3})")
# The whole range of numbers: nobody stands between this process and the machine's own users.
_ALL_USERS = ["0", "0", "4294967295"]


@frozen
class Machine:
    """Facts of the kernel and of what it runs in; None where the kernel lacks the setting.

    ``distribution`` and ``like`` are ID and ID_LIKE of os-release. ``masked`` are the places below
    /proc that something is mounted over. ``nested``: in a user namespace of somebody else's.
    """

    distribution: str = ""
    like: tuple[str, ...] = ()
    version: str = ""
    kernel: str = ""
    container: Container | None = None
    wsl: int | None = None
    apparmor_restricts: bool = False
    userns_clone: int | None = None
    max_user_namespaces: int | None = None
    max_net_namespaces: int | None = None
    masked: tuple[str, ...] = ()
    seccomp: bool = True
    nested: bool = False

    @property
    def families(self) -> tuple[str, ...]:
        """The distribution and those that it is made after, the nearest first."""
        return tuple(filter(None, (self.distribution, *self.like)))

    @property
    def named(self) -> str:
        """The distribution for people."""
        name = self.distribution or "an unnamed distribution"
        return f"{name} {self.version}".rstrip()


def read_machine(
    env: Mapping[str, str],
    read: Callable[[str], bytes] = read_small,
    exists: Callable[[str], bool] = os.path.exists,
) -> Machine:
    """This machine as it is now: read from /proc, /etc and the marks of container engines."""

    def text(path: str) -> str:
        return read(path).decode(errors="replace")

    def number(path: str) -> int | None:
        content = text(path).strip()
        return int(content) if content.isdecimal() else None

    release = os_release(text("/etc/os-release") or text("/usr/lib/os-release"))
    kernel = text("/proc/sys/kernel/osrelease").strip()
    return Machine(
        distribution="nixos" if exists("/etc/NIXOS") else release.get("ID", ""),
        like=tuple(release.get("ID_LIKE", "").split()),
        version=release.get("VERSION_ID", ""),
        kernel=kernel,
        container=_container(env, exists, text("/proc/1/cgroup")),
        wsl=wsl_of(kernel),
        apparmor_restricts=bool(number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")),
        userns_clone=number("/proc/sys/kernel/unprivileged_userns_clone"),
        max_user_namespaces=number("/proc/sys/user/max_user_namespaces"),
        max_net_namespaces=number("/proc/sys/user/max_net_namespaces"),
        masked=tuple(masked_in(text("/proc/self/mountinfo"))),
        seccomp="\nSeccomp:" in text("/proc/self/status"),
        nested=text("/proc/self/uid_map").split() not in ([], _ALL_USERS),
    )


def os_release(text: str) -> Mapping[str, str]:
    """The fields of an os-release file."""
    return dict(_FIELD.findall(text))


def wsl_of(kernel: str) -> int | None:
    """Which Windows Subsystem for Linux a kernel's release is of, if any."""
    if "microsoft" not in kernel.lower():
        return None
    # The first names itself 4.4.0-19041-Microsoft and is no Linux.
    return 2 if "WSL2" in kernel or "microsoft-standard" in kernel else 1


def masked_in(mountinfo: str) -> Iterator[str]:
    """The places below /proc that a table of mounts has something over."""
    for line in mountinfo.splitlines():
        words = line.split()
        place = _plain(words[4]) if len(words) > 4 else ""
        if place.startswith("/proc/") and place not in _ORDINARY:
            yield place


def kind_of_mount(mountinfo: str, path: str) -> str:
    """The type of file system that a canonical path lies on: ext4, nfs4, fuse.sshfs."""
    found, kind = "", ""
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        words = before.split()
        place = _plain(words[4]) if dash and len(words) > 4 else ""
        # A later mount hides an earlier one of the same place.
        if place and len(place) >= len(found) and _holds(place, path):
            found, kind = place, after.split()[0]
    return kind


def _holds(place: str, path: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")


def _plain(word: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), word)


def _container(
    env: Mapping[str, str], exists: Callable[[str], bool], cgroup: str
) -> Container | None:
    if env.get("KUBERNETES_SERVICE_HOST") or "kubepods" in cgroup:
        return "kubernetes"
    if exists("/.dockerenv"):
        return "docker"
    if exists("/run/.containerenv"):
        return "podman"
    if "/lxc" in cgroup or env.get("container") == "lxc" or exists("/dev/.lxc"):
        return "lxc"
    return "other" if env.get("container") else None
