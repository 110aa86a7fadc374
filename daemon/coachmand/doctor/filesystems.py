"""Kinds of file systems by the number that statfs tells: which can hold state, as a table."""

import ctypes
import os
from typing import Literal

from attrs import frozen

# Locks, memory maps and renames are another machine's to keep; what is in memory goes with it.
Holds = Literal["kept", "network", "memory", "windows", "unknown"]


@frozen
class FileSystem:
    """A kind by its name, and what becomes of what it holds."""

    name: str
    holds: Holds


# From linux/magic.h and the file systems' own headers.
KINDS = {
    0xEF53: FileSystem("ext4", "kept"),
    0x58465342: FileSystem("xfs", "kept"),
    0x9123683E: FileSystem("btrfs", "kept"),
    0x2FC12FC1: FileSystem("zfs", "kept"),
    0xCA451A4E: FileSystem("bcachefs", "kept"),
    0xF2F52010: FileSystem("f2fs", "kept"),
    0x3153464A: FileSystem("jfs", "kept"),
    0x52654973: FileSystem("reiserfs", "kept"),
    0x794C7630: FileSystem("overlay", "kept"),
    0xF15F: FileSystem("ecryptfs", "kept"),
    0x01021994: FileSystem("tmpfs", "memory"),
    0x858458F6: FileSystem("ramfs", "memory"),
    0x6969: FileSystem("nfs", "network"),
    0xFF534D42: FileSystem("cifs", "network"),
    0xFE534D42: FileSystem("smb2", "network"),
    0x517B: FileSystem("smb", "network"),
    0x5346414F: FileSystem("afs", "network"),
    0x6B414653: FileSystem("kafs", "network"),
    0x00C36400: FileSystem("ceph", "network"),
    0x73757245: FileSystem("coda", "network"),
    0x0BD00BD0: FileSystem("lustre", "network"),
    0x47504653: FileSystem("gpfs", "network"),
    0x20030528: FileSystem("orangefs", "network"),
    0xAAD7AAEA: FileSystem("panfs", "network"),
    0x7461636F: FileSystem("ocfs2", "network"),
    0x01161970: FileSystem("gfs2", "network"),
    0x01021997: FileSystem("9p", "network"),
    0x6A656A63: FileSystem("virtiofs", "network"),
    0x786F4256: FileSystem("vboxsf", "network"),
    0xBACBACBC: FileSystem("vmhgfs", "network"),
    0x53464846: FileSystem("wslfs", "windows"),
    0x4D44: FileSystem("vfat", "windows"),
    0x2011BAB0: FileSystem("exfat", "windows"),
    0x5346544E: FileSystem("ntfs", "windows"),
    0x7366746E: FileSystem("ntfs3", "windows"),
}
FUSE = 0x65735546
# Below /mnt of WSL 2 Windows' own disks are served over 9p under this name.
_DRVFS = "drvfs"
_LOCAL_FUSE = ("fuse.bindfs", "fuse.gocryptfs", "fuse.encfs", "fuse.fuse-overlayfs", "fuseblk")


def kind_of(magic: int, mounted_as: str) -> FileSystem:
    """What a number and the type in the table of mounts mean together; pure."""
    if mounted_as == _DRVFS:
        return FileSystem(_DRVFS, "windows")
    if magic == FUSE:
        name = mounted_as or "fuse"
        return FileSystem(name, "kept" if name in _LOCAL_FUSE else "network")
    return KINDS.get(magic) or FileSystem(mounted_as or f"{magic:#x}", "unknown")


def magic_of(path: str) -> int:
    """The number of the file system that an existing path lies on. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    # struct statfs has 120 bytes on 64-bit machines, and begins with the number.
    answer = (ctypes.c_long * 32)()
    if libc.statfs(os.fsencode(path), answer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return answer[0] & 0xFFFFFFFF
