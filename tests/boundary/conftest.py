"""A real bubblewrap and real places; where the host forbids namespaces, these tests fail."""

import os
import subprocess
from pathlib import Path

import pytest

import sandbox_launch
from coachman_sandbox.finder import Bwrap, find_bwrap
from coachman_sandbox.gitview import git_view

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


@pytest.fixture
def box(tmp_path: Path, bwrap: Bwrap) -> sandbox_launch.Box:
    """A place with no repository."""
    return sandbox_launch.make_box(tmp_path, bwrap.path)


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
    view = git_view(str(repository / ".git"), "tree")
    return sandbox_launch.make_box(tmp_path, bwrap.path, view, "state/tree")
