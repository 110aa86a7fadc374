"""The processes around a real run, seen from inside and from the host."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon_process import DaemonProcess

SECRET = "canary-fedcba9876543210"
HANDED = {
    "NOTIFY_SOCKET": "/nonexistent/notify-4c1d",
    "LISTEN_PID": "1",
    "LISTEN_FDS": "1",
    "LISTEN_FDNAMES": "names-4c1d",
}
# What init says of itself; its descriptors but for what the kernel's own calls need.
INIT = """
import os
print(open("/proc/1/environ").read().split(chr(0)))
print(open("/proc/1/cmdline").read().split(chr(0)))
for name in sorted(os.listdir("/proc/self/fd")):
    try: print("fd", os.readlink("/proc/self/fd/" + name))
    except FileNotFoundError: pass
for name in sorted(os.listdir("/proc/1/fd")):
    try: print("init", os.readlink("/proc/1/fd/" + name))
    except FileNotFoundError: pass
"""


@pytest.fixture
def handed(state_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon that a service manager started, as it were, with a secret in its environment."""
    process = DaemonProcess(state_dir, {**HANDED, "OPENAI_API_KEY": SECRET}, sys.executable)
    process.start()
    yield process
    process.tidy()


@pytest.fixture
def living(handed: DaemonProcess, repo: Path) -> Iterator[DaemonProcess]:
    """The same with a run that goes on until the test is over."""
    handed.cli("run", "-d", "-t", "t1", "-a", "command", "--", "sleep", "600", cwd=repo)
    yield handed
    handed.cli("cancel", "t1", cwd=repo)


def final(daemon: DaemonProcess, repo: Path, *command: str) -> str:
    """What a command said in a run of its own."""
    ran = daemon.cli("run", "-t", "t2", "-a", "command", "--", *command, cwd=repo)
    assert ran.returncode in (0, 6), ran.stderr
    result = json.loads(daemon.cli("result", "t2", "--json", cwd=repo).stdout)
    return (Path(result["evidence_dir"]) / "final.md").read_text()


def test_init_names_no_place_of_the_host(handed: DaemonProcess, repo: Path) -> None:
    """Neither its environment nor its command line tells where state, home or bubblewrap are."""
    environ, cmdline, *_ = final(handed, repo, "/usr/bin/python3", "-c", INIT).splitlines()
    assert "'PATH=" in environ
    assert "'bwrap'" in cmdline
    for place in (handed.root, handed.state, Path(os.path.expanduser("~"))):
        assert str(place) not in environ + cmdline


def test_no_descriptor_crosses_but_the_three(handed: DaemonProcess, repo: Path) -> None:
    """The agent and init hold pipes and events: no file of the host, no socket, no memory file."""
    said = final(handed, repo, "/usr/bin/python3", "-c", INIT).splitlines()
    found = [line.split(" ", 1) for line in said if line.startswith(("fd ", "init "))]
    assert len([what for what, _ in found if what == "fd"]) >= 3
    kinds = {target.split(":")[0].split("/")[1 if target[0] == "/" else 0] for _, target in found}
    assert kinds <= {"pipe", "anon_inode", "dev", "proc"}, found


def test_what_a_service_manager_hands_over_stops_at_the_daemon(
    living: DaemonProcess, eventually: Callable[..., object]
) -> None:
    """No keeper, no git worker and no sandbox has a listening or notifying variable."""
    assert living.process
    eventually(living.keepers)
    assert _mentioning(b"-4c1d") == {living.process.pid}


def test_credentials_are_in_no_environment_or_command_line_outside(
    living: DaemonProcess, eventually: Callable[..., object]
) -> None:
    """A key that the daemon was started with is in its own environment, where nobody may look."""
    assert living.process
    eventually(living.keepers)
    assert _mentioning(SECRET.encode()) == {living.process.pid}


def _mentioning(word: bytes) -> set[int]:
    """The processes whose environment or command line holds a word, as far as we may look."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            shown = Path(f"/proc/{name}/environ").read_bytes()
            shown += Path(f"/proc/{name}/cmdline").read_bytes()
            if word in shown:
                found.add(int(name))
    return found


@pytest.fixture
def plain(state_dir: Path, tool: Callable[[str], str]) -> list[str]:
    """Starts a program that may trace its equals only: root could trace anybody."""
    if os.getuid() != 0:
        return ["/usr/bin/env"]
    return [tool("setpriv"), "--bounding-set=-sys_ptrace,-perfmon,-sys_admin"]


@pytest.fixture
def ordinary(state_dir: Path, plain: list[str]) -> Iterator[DaemonProcess]:
    """A daemon that runs as an ordinary user would."""
    python = state_dir / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(plain)} {sys.executable} "$@"\n')
    python.chmod(0o755)
    process = DaemonProcess(state_dir, python=str(python))
    process.start()
    yield process
    process.tidy()


@pytest.mark.parametrize("name", ["environ", "maps", "mem"])
def test_daemon_and_keeper_cannot_be_looked_into(
    ordinary: DaemonProcess,
    plain: list[str],
    repo: Path,
    eventually: Callable[..., object],
    name: str,
) -> None:
    """Another process of the same user reads neither environment nor memory of either."""
    ordinary.cli("run", "-d", "-t", "t1", "-a", "command", "--", "sleep", "600", cwd=repo)
    eventually(ordinary.keepers)
    assert ordinary.process
    up = [*plain, "sh", "-c", "echo up; exec sleep 600"]
    with subprocess.Popen(up, stdout=subprocess.PIPE) as control:
        assert control.stdout
        assert control.stdout.readline() == b"up\n"
        pids = (control.pid, ordinary.process.pid, *ordinary.keepers())
        opened = [
            subprocess.run([*plain, "sh", "-c", f": < /proc/{pid}/{name}"], check=False).returncode
            for pid in pids
        ]
        control.kill()
    assert [bool(code) for code in opened] == [False, True, True]
