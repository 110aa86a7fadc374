"""The repository from inside: readable history, no write, no credential."""

import os
import subprocess
from pathlib import Path

import pytest
from attrs import evolve

from coachman_sandbox.gitview import check_pointer
from coachman_sandbox.policy import GitView, PolicyError
from repo_views import show
from sandbox_launch import Box, spawn

REFUSAL = "coachman commits for you"


def test_an_agent_reads_status_diff_log_and_blame(git_box: Box) -> None:
    """status, diff, log and blame work inside as in any worktree."""
    (git_box.root / "state/tree/a.txt").write_text("changed\n")
    assert git_box.run("git", "status", "--short").stdout == " M a.txt\n"
    assert "+changed" in git_box.run("git", "diff").stdout
    assert "first commit" in git_box.run("git", "log", "--oneline").stdout
    blame = git_box.run("git", "blame", "src/b.txt")
    assert (blame.returncode, "two" in blame.stdout, blame.stderr) == (0, True, "")


@pytest.mark.parametrize(
    "command",
    [
        ("add", "a.txt"),
        ("commit", "-am", "mine"),
        ("checkout", "-b", "mine"),
        ("tag", "mine"),
        ("config", "core.pager", "sh"),
        ("reset", "--hard"),
    ],
)
def test_writing_to_the_repository_fails_with_one_line_that_says_so(
    git_box: Box, command: tuple[str, ...]
) -> None:
    """Git's own message about its lock file tells the agent who commits."""
    (git_box.root / "state/tree/a.txt").write_text("changed\n")
    done = git_box.run("git", *command)
    assert done.returncode != 0
    assert REFUSAL in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_stash_fails_and_loses_nothing(git_box: Box) -> None:
    """Git says nothing here, but the change is still in the tree."""
    (git_box.root / "state/tree/a.txt").write_text("changed\n")
    assert git_box.run("git", "stash").returncode != 0
    assert (git_box.root / "state/tree/a.txt").read_text() == "changed\n"


def test_the_repositorys_credentials_do_not_cross(git_box: Box, repository: Path) -> None:
    """Neither git nor a search finds the remote's password, also after the host rewrote config."""
    script = "git remote -v; grep -r hunter2secret '/git, coachman commits for you' /workspace"
    command = ["git", "-C", str(repository), "config", "user.name", "someone"]
    go = "read -r _ < /scratch/go; "
    os.mkfifo(git_box.root / "state/scratch/go")
    process = spawn(git_box.bwrap, git_box.policy(), ["/bin/sh", "-c", go + script])
    with (git_box.root / "state/scratch/go").open("w") as fifo:
        # The sandbox stands; the host's git now replaces the file by rename.
        subprocess.run(command, check=True)
        fifo.write("go\n")
    out, err = process.communicate(timeout=90)
    assert (out, err) == ("", "")


def test_other_tasks_entries_and_hooks_are_not_there(git_box: Box, repository: Path) -> None:
    """The view holds neither entries of worktrees nor hooks, logs or anything else of git's."""
    other = str(git_box.root / "other")
    subprocess.run(["git", "-C", str(repository), "worktree", "add", "-q", other], check=True)
    listing = git_box.sh("cd /git*; ls; ls objects refs").split()
    shown = ["HEAD", "config", "index", "info", "objects", "packed-refs", "refs"]
    assert listing == [*shown, "objects:", "pack", "refs:"]


def test_the_pointer_cannot_be_replaced_from_inside(git_box: Box) -> None:
    """The worktree's .git stays the host's file, whatever is tried inside."""
    before = (git_box.root / "state/tree/.git").read_text()
    git_box.sh("echo x > .git; rm -rf .git; mv .git gone; ln -sf /etc/passwd .git; mv a.txt .git")
    assert (git_box.root / "state/tree/.git").read_text() == before
    assert before.startswith(f"gitdir: {git_box.root}/repo/.git/worktrees/tree")


def test_the_agent_starts_in_the_callers_subfolder(git_box: Box) -> None:
    """The working directory is the subfolder, and git knows where its top is."""
    moved = evolve(git_box, place=evolve(git_box.place, subfolder="src"))
    assert moved.sh("pwd; git rev-parse --show-toplevel").split() == [
        "/workspace/src",
        "/workspace",
    ]


def test_a_pointer_that_is_a_link_is_refused(git_box: Box) -> None:
    """A mount over a planted link would follow it, so such a tree is not started."""
    check_pointer(str(git_box.root / "state/tree"))
    pointer = git_box.root / "state/tree/.git"
    pointer.unlink()
    pointer.symlink_to("/etc/passwd")
    with pytest.raises(PolicyError, match="not a regular file"):
        check_pointer(str(git_box.root / "state/tree"))


def test_a_repository_that_borrows_objects_is_readable(
    git_box: Box, repository: Path, tmp_path: Path
) -> None:
    """What a shared clone borrows is in the view, and no directory of its origin is there."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--shared", str(repository), str(clone)], check=True)
    tree = tmp_path / "state" / "shared"
    command = ["git", "-C", str(clone), "worktree", "add", "-q", "--detach", str(tree)]
    subprocess.run(command, check=True)
    view = GitView(str(show(tmp_path / "state", clone / ".git", "shared", "borrowing")))
    shared = evolve(git_box, place=evolve(git_box.place, workspace=str(tree), git=view))
    assert "first commit" in shared.run("git", "log", "--oneline").stdout
    assert shared.run("git", "fsck", "--full", "--strict").returncode == 0
    assert "No such file" in shared.sh(f"ls -A {repository}/.git")
