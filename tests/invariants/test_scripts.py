"""The scripts say what stands in the way, with the exit code that belongs to it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sourcetree
from coachman import wire

SOURCES = os.pathsep.join(str(package.parent) for package in sourcetree.PACKAGES.values())
# A user namespace of our own, in which no further one may be made.
FORBID = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'


def can_forbid_namespaces() -> bool:
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False)
    return done.returncode == 0


def boundary(*before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, sys.executable, "scripts/boundary.py"],
        cwd=sourcetree.ROOT,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_boundary_says_which_bwrap_is_used() -> None:
    """On a host that can build sandboxes the script names the bwrap and why it was chosen."""
    done = boundary()

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("bwrap ")


@pytest.mark.skipif(not can_forbid_namespaces(), reason="needs unshare and user namespaces")
def test_forbidden_namespaces_are_named_with_their_remedy() -> None:
    """Where user namespaces are forbidden the script exits 71 and says what to change."""
    done = boundary("unshare", "-Ur", "sh", "-c", FORBID, "sh")

    assert done.returncode == wire.EXIT_BOUNDARY, done.stderr
    assert "cannot build a sandbox" in done.stderr
    assert "max_user_namespaces" in done.stderr


def test_a_missing_python_is_named_with_its_remedy() -> None:
    """Without a Python that is new enough the set-up exits 69 and names what would help."""
    done = subprocess.run(
        ["sh", "-c", "ROOT=$PWD; . scripts/lib.sh; find_python"],
        cwd=sourcetree.ROOT,
        env={"PATH": os.environ["PATH"], "COACHMAN_PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (wire.EXIT_NO_DAEMON, "")
    assert "COACHMAN_PYTHON" in done.stderr


@pytest.mark.parametrize("name", ["agents", "node"])
def test_where_npm_packages_go_is_outside_the_repository(name: str) -> None:
    """The cache is named without installing anything, by content of the lock file."""
    caches = {"COACHMAN_AGENT_CACHE": "/nowhere", "COACHMAN_NODE_CACHE": "/nowhere"}
    done = subprocess.run(
        [f"scripts/{name}", "--where"],
        cwd=sourcetree.ROOT,
        env={"PATH": os.environ["PATH"], **caches},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.startswith("/nowhere/")
    assert done.stdout.strip("\n").rpartition("/")[2].isdigit()


def test_a_missing_tool_is_named_where_it_cannot_be_installed(tmp_path: Path) -> None:
    """Without apt-get the tools that the shell client's tests need are named, with exit 69."""
    for name in ("sh", "id", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    done = subprocess.run(
        [tmp_path / "sh", "scripts/tools"],
        cwd=sourcetree.ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == wire.EXIT_NO_DAEMON
    assert "this machine has no jq socat netcat-openbsd" in done.stderr
