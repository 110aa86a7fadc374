"""A daemon whose state lies on a small disk of its own: a tmpfs in a private mount namespace.

Other processes see it through /proc/<holder>/root, sockets included.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from daemon_process import DaemonProcess

PRIVATE = ("--mount", "--propagation", "private")
# Without privileges a user namespace of one's own allows the mount.
OWN_USER = () if os.geteuid() == 0 else ("--user", "--map-root-user")
ENTER_USER = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
CONFIG = """
[storage]
reserve = "4MiB"
[retention]
free_space_floor = "1MiB"
"""


class SmallDisk:
    """A tmpfs of ``size_mib`` at ``root``/disk, there as long as this is open."""

    def __init__(self, root: Path, size_mib: int) -> None:
        self.mounted = root / "disk"
        self.mounted.mkdir()
        script = f"mount -t tmpfs -o size={size_mib}m,mode=700 none {self.mounted} && echo && cat"
        self._holder = subprocess.Popen(
            ["unshare", *PRIVATE, *OWN_USER, "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"\n", "no tmpfs could be mounted"
        self.path = Path(f"/proc/{self._holder.pid}/root{self.mounted}")

    def python(self, script: Path) -> str:
        """A program that is Python inside; written to ``script``."""
        enter = ["nsenter", f"--target={self._holder.pid}", "--mount", *ENTER_USER]
        script.write_text(f'#!/bin/sh\nexec {" ".join(enter)} -- {sys.executable} "$@"\n')
        script.chmod(0o700)
        return str(script)

    def fill(self, leave_kib: int = 0) -> None:
        """Take all room but so much."""
        with (self.path / "filler").open("ab") as file:
            while (free := shutil.disk_usage(self.path).free - leave_kib * 1024) > 0:
                file.write(b"\0" * min(free, 1 << 20))
                file.flush()

    def empty(self) -> None:
        """Give it all back."""
        (self.path / "filler").unlink()

    def close(self) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        self._holder.stdin.close()
        self._holder.stdout.close()
        self._holder.wait(10)


class SmallDaemon(DaemonProcess):
    """A daemon on such a disk."""

    def __init__(self, root: Path, disk: SmallDisk) -> None:
        inside = {"COACHMAN_STATE_DIR": str(disk.mounted / "state")}
        super().__init__(root, inside, disk.python(root / "python"))
        self.state = disk.path / "state"
        config = root / "config.toml"
        config.write_text(CONFIG)
        self.env["COACHMAN_CONFIG"] = str(config)
