"""Whether this host lets us build the walls that a run needs, and if not, why."""

import os
import subprocess
from collections.abc import Mapping
from typing import Literal, get_args

from .bubblewrap import Compiled, compile_policy
from .causes import Probe, classify
from .finder import CLEAN_ENV, Bwrap
from .host import Host, read_host
from .machine import Machine, read_machine
from .network import HOST_NETWORK, Network
from .policy import Bind, Dev, Mount, Policy, Proc, Symlink, Tmpfs
from .seccomp import FilterMissing

__all__ = ["NEEDS", "Need", "Probe", "needed_by", "probe", "probe_all"]

# What a run needs of the kernel: "processes" a namespace of processes alone (`host`), "walls" all
# others with the filter but for the network's, "network" that one as well.
Need = Literal["processes", "walls", "network"]
NEEDS: tuple[Need, ...] = get_args(Need)

PROBE_LIMIT_S = 20.0
# Without arguments it ends well at once; it is at this path on every distribution.
_PROGRAM = "/usr/bin/env"


def needed_by(policy: Policy) -> Need:
    """What a run of this policy needs."""
    if policy.confinement == "processes":
        return "processes"
    return "walls" if policy.network.kind == "host" else "network"


def probe_all(bwrap: Bwrap, machine: Machine) -> Mapping[Need, Probe]:
    """Each need for itself; what has all of them has each. Blocking."""
    whole = probe(bwrap, machine)
    if whole.ok:
        return dict.fromkeys(NEEDS, whole)
    return {
        "processes": probe(bwrap, machine, "processes"),
        "walls": probe(bwrap, machine, "walls"),
        "network": whole,
    }


def probe(bwrap: Bwrap, machine: Machine | None = None, need: Need = "network") -> Probe:
    """Build the walls around a small program once: a real run's namespaces and filter. Blocking."""
    try:
        compiled = compile_policy(_smallest(read_host({}), need))
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
    machine = machine or read_machine(os.environ)
    return classify(done.stderr.decode(errors="replace"), machine, bwrap)


def _build(bwrap: Bwrap, compiled: Compiled) -> "subprocess.CompletedProcess[bytes]":
    descriptors = [_descriptor(content) for content in compiled.data]
    numbers = {f"{{fd:{index}}}": str(number) for index, number in enumerate(descriptors)}
    args = [numbers.get(arg, arg) for arg in compiled.args]
    try:
        return subprocess.run(
            [bwrap.path, *args, "--", _PROGRAM],
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


def _smallest(host: Host, need: Need) -> Policy:
    env = {"PATH": "/usr/bin:/bin"}
    if need == "processes":
        return Policy(
            "probe",
            (Bind("/", "/", writable=True, devices=True), Proc()),
            cwd="/",
            env=env,
            hostname="",
            user_namespaces=True,
            system_calls="none",
            confinement="processes",
        )
    system: list[Mount] = [Bind(path, path) for path in host.directories]
    links: list[Mount] = [Symlink(target, path) for path, target in host.links]
    settings = Bind("/proc/sys", "/proc/sys")
    mounts = (*system, *links, Proc(), settings, Dev(), Tmpfs("/tmp", 1024**2))  # noqa: S108
    network = HOST_NETWORK if need == "walls" else Network("none")
    return Policy("probe", mounts, cwd="/", env=env, network=network)
