"""Where a repository lies: runs work the same in whatever stands for a checkout."""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon_process import DaemonProcess, git, make_repository

SEES = "git log --format=%s; git status --short; echo made > made.txt; git status --short; pwd"


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[DaemonProcess]:
    """A daemon whose state and whose user's home are on another file system than repositories."""
    with tempfile.TemporaryDirectory(prefix="cm-", dir="/dev/shm") as root:
        process = DaemonProcess(Path(root))
        process.start()
        yield process
        process.tidy()


def plain(root: Path) -> Path:
    return make_repository(root / "repo")


def linked(root: Path) -> Path:
    """A worktree that the user made."""
    repo = make_repository(root / "repo")
    git(repo, "worktree", "add", "-q", "-b", "mine", str(root / "linked"))
    return root / "linked"


def bare(root: Path) -> Path:
    make_repository(root / "repo")
    git(root, "clone", "-q", "--bare", "repo", "bare.git")
    return root / "bare.git"


def linked_to_bare(root: Path) -> Path:
    """The layout of those who keep a bare repository with worktrees beside it."""
    git(bare(root), "worktree", "add", "-q", "-b", "mine", str(root / "linked"))
    return root / "linked"


def through_links(root: Path) -> Path:
    """A link to the checkout below a link to the folder above it, and a git directory apart."""
    make_repository(root / "origin")
    (root / "real").mkdir()
    git(root, "clone", "-q", "--separate-git-dir", "real/apart", "origin", "real/repo")
    (root / "via").symlink_to("real")
    (root / "real/link").symlink_to(root / "real/repo")
    return root / "via" / "link"


def borrowing(root: Path) -> Path:
    """A clone that has no object of its own."""
    make_repository(root / "origin")
    git(root, "clone", "-q", "--shared", "origin", "clone")
    return root / "clone"


def shallow(root: Path) -> Path:
    make_repository(root / "origin")
    git(root / "origin", "commit", "-q", "--allow-empty", "-m", "first")
    git(root, "clone", "-q", "--depth", "1", f"file://{root}/origin", "clone")
    return root / "clone"


def with_submodule(root: Path) -> Path:
    """A repository that holds another one's commit."""
    make_repository(root / "part")
    repo = make_repository(root / "repo")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../part", "part")
    git(repo, "commit", "-q", "--amend", "-m", "first")
    return repo


PLACES = (plain, linked, bare, linked_to_bare, through_links, borrowing, shallow, with_submodule)


@pytest.mark.parametrize("make", PLACES, ids=[make.__name__ for make in PLACES])
def test_a_run_works_where_the_repository_is(
    elsewhere: DaemonProcess, state_dir: Path, make: Callable[[Path], Path]
) -> None:
    """It reads the history, changes the worktree, and its work is a commit on its base."""
    where = make(state_dir)
    head = git(where, "rev-parse", "HEAD")

    ran = elsewhere.cli("run", "-t", "t1", "-a", "command", "--", "/bin/sh", "-c", SEES, cwd=where)
    result = json.loads(elsewhere.cli("result", "t1", "--json", cwd=where).stdout)

    assert ran.returncode == 0, ran.stderr
    final = Path(result["evidence_dir"], "final.md").read_text()
    assert final == "first\n?? made.txt\n/workspace\n"
    assert result["base"] == head
    ref = f"refs/coachman/run/{result['run']}"
    assert git(where, "show", f"{ref}:made.txt") == "made"
    assert git(where, "rev-parse", f"{ref}^") == head
    cleaned = elsewhere.cli("cleanup", "t1", cwd=where)
    assert cleaned.returncode == 0, cleaned.stderr
    assert not Path(result["worktree"]).exists()
