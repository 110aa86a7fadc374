"""What a machine says of itself, over recorded facts of many."""

import pytest

from coachman_sandbox.machine import (
    Machine,
    kind_of_mount,
    masked_in,
    os_release,
    read_machine,
    wsl_of,
)

DEBIAN = 'NAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n'
MINT = 'NAME="Linux Mint"\nID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n'
NIXOS = 'ID=nixos\nVERSION_ID="24.11"\n'
DOCKER_MOUNTS = """\
512 400 0:50 / / rw,relatime - overlay overlay rw
513 512 0:53 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
517 513 0:53 /bus /proc/bus ro,nosuid - proc proc rw
519 513 0:54 / /proc/acpi ro,relatime - tmpfs tmpfs ro
520 513 0:52 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw
"""
HOME_MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
23 22 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw
30 21 0:40 / /home rw - nfs4 server:/home rw
31 30 0:41 / /home/me/with\\040space rw - fuse.sshfs me@far: rw
"""


def machine(files: dict[str, str], *there: str, **env: str) -> Machine:
    """What is read of a machine that has these files."""
    return read_machine(
        env, lambda path: files.get(path, "").encode(), lambda path: path in {*files, *there}
    )


@pytest.mark.parametrize(
    ("files", "there", "env", "facts"),
    [
        (
            {"/etc/os-release": DEBIAN, "/proc/sys/kernel/unprivileged_userns_clone": "0\n"},
            (),
            {},
            {"families": ("debian",), "named": "debian 12", "userns_clone": 0, "container": None},
        ),
        ({"/usr/lib/os-release": MINT}, (), {}, {"families": ("linuxmint", "ubuntu", "debian")}),
        ({"/etc/os-release": NIXOS}, ("/etc/NIXOS",), {}, {"distribution": "nixos"}),
        ({}, (), {}, {"named": "an unnamed distribution", "wsl": None, "masked": ()}),
        (
            {"/proc/self/mountinfo": DOCKER_MOUNTS},
            ("/.dockerenv",),
            {},
            {"container": "docker", "masked": ("/proc/bus", "/proc/acpi", "/proc/kcore")},
        ),
        ({}, ("/run/.containerenv",), {}, {"container": "podman"}),
        ({"/proc/1/cgroup": "0::/kubepods/pod1"}, (), {}, {"container": "kubernetes"}),
        ({}, ("/.dockerenv",), {"KUBERNETES_SERVICE_HOST": "::1"}, {"container": "kubernetes"}),
        ({}, (), {"container": "lxc"}, {"container": "lxc"}),
        ({}, (), {"container": "systemd-nspawn"}, {"container": "other"}),
        (
            {"/proc/sys/kernel/osrelease": "6.6.36.3-microsoft-standard-WSL2"},
            (),
            {},
            {"wsl": 2},
        ),
        (
            {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
            (),
            {},
            {"apparmor_restricts": True},
        ),
        ({"/proc/self/uid_map": "  0  0 4294967295\n"}, (), {}, {"nested": False}),
        ({"/proc/self/uid_map": "  1000 1000 1\n"}, (), {}, {"nested": True}),
        ({"/proc/self/status": "Name:\tx\nSeccomp:\t0\n"}, (), {}, {"seccomp": True}),
        ({"/proc/self/status": "Name:\tx\n"}, (), {}, {"seccomp": False}),
        ({"/proc/sys/user/max_net_namespaces": "0"}, (), {}, {"max_net_namespaces": 0}),
    ],
)
def test_a_machine_is_known_by_what_it_leaves_in_its_files(
    files: dict[str, str], there: tuple[str, ...], env: dict[str, str], facts: dict[str, object]
) -> None:
    """Distribution, container, Windows and the kernel's settings are told from recorded files."""
    found = machine(files, *there, **env)
    assert {name: getattr(found, name) for name in facts} == facts


def test_windows_is_told_from_a_kernels_release() -> None:
    """The first one is no Linux, the second has one."""
    releases = ("4.4.0-19041-Microsoft", "5.15.90.1-microsoft-standard-WSL2", "6.1.0-18-amd64")
    assert [wsl_of(release) for release in releases] == [1, 2, None]


def test_a_plain_proc_is_not_masked() -> None:
    """What systemd mounts there hides nothing."""
    assert list(masked_in(HOME_MOUNTS)) == []


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/homeless", "ext4"),
        ("/home", "nfs4"),
        ("/home/me/state", "nfs4"),
        ("/home/me/with space/state", "fuse.sshfs"),
    ],
)
def test_a_paths_file_system_is_that_of_its_nearest_mount(path: str, kind: str) -> None:
    """The longest mount point that holds the path, spelled as the kernel does."""
    assert kind_of_mount(HOME_MOUNTS, path) == kind


def test_an_os_release_is_read_with_and_without_quotes() -> None:
    """Both spellings are common."""
    assert os_release("ID='arch'\nNAME=Arch Linux\n") == {"ID": "arch", "NAME": "Arch Linux"}
