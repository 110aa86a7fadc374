"""A repository with programs and modules of its own where the client and the daemon begin."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coachman import service
from daemon_process import DaemonProcess, git, make_repository

PROGRAMS = (
    *("bwrap", "git", "node", "npm", "python", "python3", "python3.11", "python3.12", "python3.13"),
    *(
        "sh",
        "bash",
        "env",
        "busctl",
        "systemctl",
        "systemd-run",
        "loginctl",
        "journalctl",
        "coachmand",
    ),
    *("demo", "less", "more", "ldd", "uname", "id", "cat", "nsenter", "unshare", "newuidmap"),
)
MODULES = (
    *("trio", "json", "os", "attrs", "msgspec", "pygit2", "structlog", "sitecustomize"),
    *("usercustomize", "coachman", "coachmand", "coachman_sandbox", "coachman_adapters", "socket"),
)
PLACES = ("", ".venv/bin", "node_modules/.bin", "sub")


@pytest.fixture
def canary(state_dir: Path) -> Path:
    """Where whatever ran on the host notes its name."""
    return state_dir / "ran"


@pytest.fixture
def armed(state_dir: Path, canary: Path) -> Path:
    """A repository whose every program and module notes that it ran."""
    repo = make_repository(state_dir / "repo")
    for place in PLACES:
        (repo / place).mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            path = repo / place / name
            path.write_text(f"#!/bin/sh\necho {place}/{name} >> {canary}\nexit 1\n")
            path.chmod(0o755)
        for name in MODULES:
            told = f"{place}/{name}.py"
            code = f"open({str(canary)!r}, 'a').write({told!r} + chr(10))\nraise SystemExit(9)\n"
            (repo / place / f"{name}.py").write_text(code)
    (repo / ".venv/pyvenv.cfg").write_text(f"home = {repo}\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "armed")
    return repo


@pytest.fixture
def hidden(state_dir: Path, armed: Path) -> Iterator[DaemonProcess]:
    """Clients whose PATH begins in the repository, in each way; nothing runs yet."""
    process = DaemonProcess(state_dir)
    entries = (".", "", "sub", ".venv/bin", *(str(armed / place) for place in PLACES))
    process.env |= {
        "PATH": ":".join([*entries, process.env["PATH"]]),
        "PYTHONPATH": f"{armed}:.",
        "PYTHONHOME": str(armed),
        "PYTHONSTARTUP": str(armed / "json.py"),
        "VIRTUAL_ENV": str(armed / ".venv"),
        "COACHMAN_AUTOSTART": "1",
    }
    yield process
    process.cli("daemon", "stop", "--mode", "stop", cwd=Path("/"))
    process.tidy()


@pytest.fixture
def installed(hidden: DaemonProcess, armed: Path) -> DaemonProcess:
    """The same, where the daemon is a service of a user manager that nobody can reach."""
    del hidden.env["COACHMAN_STATE_DIR"]
    hidden.env["XDG_STATE_HOME"] = str(hidden.root / "of-user")
    hidden.env["XDG_RUNTIME_DIR"] = str(hidden.root / "run")
    (hidden.root / "run").mkdir(mode=0o700)
    list(service.write_units(sys.executable, hidden.env))
    return hidden


def test_none_of_its_tools_is_taken_for_systemds(
    installed: DaemonProcess, armed: Path, canary: Path
) -> None:
    """Neither to start the service, nor to look at it, nor to read its journal."""
    ran = installed.cli("run", "-a", "demo", "-t", "t1", "say hi", cwd=armed)
    for words in (["status"], ["daemon", "logs"], ["daemon", "install", "--now"]):
        installed.cli(*words, cwd=armed)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert not canary.exists(), canary.read_text()


@pytest.mark.parametrize("place", ["", "sub"])
def test_nothing_of_the_repository_runs_on_the_host(
    hidden: DaemonProcess, armed: Path, canary: Path, place: str
) -> None:
    """The client starts a daemon there, runs an agent and reads what came of it."""
    where = armed / place
    ran = hidden.cli("run", "-a", "demo", "-t", "t1", "write new.txt x\nrun cat new.txt", cwd=where)
    shown = [
        hidden.cli(*words, cwd=where)
        for words in (["diff", "t1"], ["result", "t1"], ["status"], ["list"], ["cleanup", "--all"])
    ]

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [each.returncode for each in shown[:4]] == [0] * 4, shown
    assert not canary.exists(), canary.read_text()
