"""The mounts as they are inside: what is writable, how large it may get, what it may run."""

import os
import stat

import pytest
from attrs import field, frozen

from sandbox_launch import Box

WRITABLE = {"/home/agent", "/output", "/scratch", "/workspace", "/tmp", "/dev/shm"}
# The host's own nodes: what is written to them is not stored.
DEVICES = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts")}


@frozen
class Mounted:
    """A line of mountinfo."""

    where: str
    flags: frozenset[str] = field(converter=frozenset)
    kind: str
    options: frozenset[str] = field(converter=frozenset)


def mounts(box: Box) -> list[Mounted]:
    """Every mount of a sandbox."""
    found = []
    for line in box.run("cat", "/proc/self/mountinfo").stdout.splitlines():
        head, _, tail = line.partition(" - ")
        where, flags = head.split()[4:6]
        kind, *_, options = tail.split()
        where = where.encode().decode("unicode_escape")
        found.append(Mounted(where, flags.split(","), kind, options.split(",")))
    assert len(found) > 10
    return found


def test_nothing_else_is_mounted_for_writing(box: Box) -> None:
    """The run's own directories, memory, devices, and for an ordinary user its own /proc."""
    writable = {mount.where for mount in mounts(box) if "ro" not in mount.flags}
    root = box.host.uid == 0
    assert writable == WRITABLE | DEVICES | (set() if root else {"/proc"})


def test_every_memory_file_system_is_sized_or_read_only(box: Box) -> None:
    """None can take more of the machine's memory than its size says."""
    memory = [mount for mount in mounts(box) if mount.kind == "tmpfs"]
    unbounded = [
        mount.where
        for mount in memory
        if "ro" not in mount.flags and not any(o.startswith("size=") for o in mount.options)
    ]
    assert {mount.where for mount in memory} >= {"/", "/dev", "/dev/shm", "/tmp"}
    assert unbounded == []


def test_no_mount_honours_set_user_id_or_devices(box: Box) -> None:
    """A program that changes its user, or a device node, is nowhere more than a file."""
    honoured = {m.where: {"nosuid", "nodev"} - m.flags for m in mounts(box)}
    devices = {where: missing for where, missing in honoured.items() if missing}
    assert devices == {device: {"nodev"} for device in DEVICES}


def test_a_full_memory_file_system_is_an_error_inside(box: Box) -> None:
    """/dev/shm takes 256 MiB and not a byte more."""
    script = "head -c 300M /dev/zero > /dev/shm/big; stat -c %s /dev/shm/big"
    done = box.run("/bin/sh", "-c", script)
    assert "No space left on device" in done.stderr
    assert int(done.stdout) <= 256 * 1024**2


def test_a_node_of_the_hosts_disk_cannot_be_made(box: Box) -> None:
    """mknod of a device is refused, in memory as in the worktree."""
    said = box.sh("mknod /tmp/disk b 254 0; mknod /workspace/disk b 254 0; mknod /tmp/c c 1 1")
    assert said.count("Operation not permitted") == 3
    assert list((box.root / "state/tree").iterdir()) == []


@pytest.mark.parametrize("path", ["/proc/uptime", "/proc/meminfo", "/proc/sys/kernel/hostname"])
def test_the_mode_of_a_file_of_proc_cannot_be_changed(box: Box, path: str) -> None:
    """These files are the host's own: one that root made unreadable here would be there too."""
    before = stat.S_IMODE(os.stat(path).st_mode)
    # The mode that it has, so that no harm is done where it can be set.
    done = box.run("chmod", f"{before:o}", path)
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr or "not permitted" in done.stderr


@pytest.mark.parametrize("name", ["keys", "key-users", "kcore", "slabinfo", "timer_list"])
def test_the_kernels_tables_cannot_be_read(box: Box, name: str) -> None:
    """The user's keyrings and the host's memory have nothing to tell inside."""
    assert box.run("cat", f"/proc/{name}").stdout == ""


def test_pressure_takes_no_trigger(box: Box) -> None:
    """/proc/pressure is open to everybody outside; inside it is read-only."""
    said = box.sh("echo 'some 150000 2000000' > /proc/pressure/cpu && echo armed")
    assert "armed" not in said


@pytest.mark.parametrize("where", ["/", "/dev"])
def test_a_read_only_mount_stays_so(box: Box, where: str) -> None:
    """Nobody inside can mount anything again, for writing or otherwise."""
    said = box.sh(f"mount -o remount,rw {where} && echo done; : > {where}/probe && echo made")
    assert "done" not in said
    assert "made" not in said
