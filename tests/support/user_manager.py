"""systemd's tools, and a real user manager of one's own where this machine allows one."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

MANAGER = "/usr/lib/systemd/systemd"
CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
READY_LIMIT_S = 60.0
# It wants a machine that was booted with systemd, and a cgroup of its own.
BEGIN = """
mount -t tmpfs tmpfs /run/systemd && mkdir /run/systemd/system || exit
for cgroup in "$@"; do mkdir "$cgroup" && echo $$ >"$cgroup/cgroup.procs" || exit; done
exec "$MANAGER" --user
"""


def tool(name: str) -> str:
    """The path of one of systemd's programs; skips, saying so, where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here: this needs a machine with systemd's tools")
    return found


class UserManager:
    """``systemd --user`` with a home and a runtime directory below ``root``."""

    def __init__(self, root: Path) -> None:
        self.runtime = root / "run"
        self.home = root / "home"
        self.log = root / "manager.log"
        for directory in (self.runtime, self.home):
            directory.mkdir(mode=0o700, parents=True)
        self._cgroups = [
            Path(mounted, f"coachman-test-{os.getpid()}-{root.name}")
            for mounted in CGROUPS
            if Path(mounted, "cgroup.procs").exists()
        ]

    def start(self, env: Mapping[str, str]) -> None:
        """Start it and wait until it is up; skips, saying why, where it cannot be started."""
        tool("systemctl")
        if os.geteuid() != 0 or not Path(MANAGER).exists() or not shutil.which("unshare"):
            pytest.skip("a user manager of one's own needs root, unshare and systemd")
        self.env = {
            **env,
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "MANAGER": MANAGER,
        }
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", BEGIN, "sh", *map(str, self._cgroups)],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        ends = time.monotonic() + READY_LIMIT_S
        while self.show("default.target", "ActiveState") != "active":
            if self._process.poll() is not None or time.monotonic() > ends:
                self.stop()
                pytest.skip(f"no user manager can be started here: {self.log.read_text()[-500:]}")
            time.sleep(0.05)

    def systemctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``systemctl --user``."""
        return subprocess.run(
            ["systemctl", "--user", *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.systemctl("show", "--value", "-p", name, unit).stdout.strip()

    def stop(self) -> None:
        """End it, its units and its cgroups."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.wait(READY_LIMIT_S)
        for cgroup in self._cgroups:
            for directory, _, _ in os.walk(cgroup, topdown=False):
                # A process that outlives its unit keeps its cgroup a moment longer.
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
