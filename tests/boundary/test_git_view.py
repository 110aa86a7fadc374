"""What the base does not reach cannot be read from inside: not by name, by id, or by path."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from coachman_sandbox.finder import Bwrap
from coachman_sandbox.policy import GitView
from repo_views import show
from repos_fixtures import git, git_bytes
from sandbox_launch import Box, make_box

CANARY = "canary-4711-of-another-branch"


@pytest.fixture
def canaries(repository: Path) -> dict[str, str]:
    """Objects beside the history of main, each with a canary: their ids by what they are."""
    git(repository, "checkout", "-q", "-b", "secret")
    (repository / "canary.txt").write_text(CANARY)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", CANARY)
    git(repository, "tag", "-a", "-m", CANARY, "secret-tag")
    found = {
        "commit": git(repository, "rev-parse", "secret"),
        "tree": git(repository, "rev-parse", "secret^{tree}"),
        "blob": git(repository, "rev-parse", "secret:canary.txt"),
        "tag": git(repository, "rev-parse", "secret-tag"),
    }
    git(repository, "checkout", "-q", "main")
    (repository / "a.txt").write_text(f"{CANARY} stashed\n")
    git(repository, "stash", "-q")
    found["stash"] = git(repository, "rev-parse", "stash")
    git(repository, "tag", "-a", "-m", CANARY, "noted", "main")
    found["note"] = git(repository, "rev-parse", "noted")
    git(repository, "update-ref", "refs/coachman/run/another", found["commit"].strip())
    dangling = ["git", "-C", str(repository), "hash-object", "-w", "--stdin"]
    made = subprocess.run(
        dangling, input=f"{CANARY} lost", capture_output=True, text=True, check=True
    )
    found["dangling"] = made.stdout
    return {what: oid.strip() for what, oid in found.items()}


@pytest.fixture
def seeing(
    canaries: dict[str, str], tmp_path: Path, repository: Path, bwrap: Bwrap
) -> Callable[[], Box]:
    """Makes the sandbox over a worktree of main, with what is in it by then."""
    assert canaries
    state = tmp_path / "state"
    state.mkdir()
    git(repository, "worktree", "add", "-q", "--detach", str(state / "tree"), "main")

    def make() -> Box:
        view = GitView(str(show(state, repository / ".git", "tree")))
        return make_box(tmp_path, bwrap.path, view, "state/tree")

    return make


def test_no_object_beside_the_base_can_be_read_by_its_id(
    seeing: Callable[[], Box], canaries: dict[str, str], repository: Path
) -> None:
    """Commits, trees, blobs, tags, stashes and dangling blobs are no objects inside."""
    box = seeing()
    ids = " ".join(canaries.values())
    for oid in canaries.values():
        assert git(repository, "cat-file", "-t", oid)
    said = box.sh(
        f"for id in {ids}; do git cat-file -e $id 2>/dev/null && echo there $id; done;"
        f"for id in {ids}; do git show $id; git cat-file -p $id; git log -1 $id; done 2>/dev/null;"
        "git cat-file --batch-all-objects --batch; git fsck --lost-found --full; echo end"
    )
    assert said.strip().endswith("end")
    assert "there" not in said
    assert CANARY not in said


def test_no_name_leads_beside_the_base(seeing: Callable[[], Box]) -> None:
    """Branches and tags of the base's history have their names; no others have one."""
    box = seeing()
    names = box.run("git", "for-each-ref", "--format=%(refname) %(objecttype)").stdout
    assert names.splitlines() == ["refs/heads/main commit", "refs/tags/noted commit"]
    for name in (
        "secret",
        "secret-tag",
        "stash",
        "refs/coachman/run/another",
        "HEAD@{1}",
        "ORIG_HEAD",
    ):
        assert box.run("git", "rev-parse", "-q", "--verify", name).returncode != 0, name
    assert box.run("git", "stash", "list").stdout == ""
    assert box.run("git", "log", "--all", "--reflog", "--format=%s").stdout == "first commit\n"


def test_no_path_inside_leads_to_the_repository(
    seeing: Callable[[], Box], repository: Path, canaries: dict[str, str]
) -> None:
    """Neither the repository nor the kept views have a path, and no file names their place."""
    box = seeing()
    oid = canaries["blob"]
    said = box.sh(
        f"ls {repository} {box.root}/state; find / -xdev -name '{oid[2:]}' 2>/dev/null;"
        f"grep -rl '{repository}' /git* /workspace; echo end"
    )
    assert said.startswith("end\n")
    assert said.count("No such file") == len(said.splitlines()) - 1 == 2


@pytest.mark.parametrize(
    "command",
    [
        "git status --porcelain=v2 --branch",
        "git status",
        "git diff",
        "git diff --cached",
        "git diff HEAD",
        "git log --stat --format=fuller",
        "git log --follow -p src/b.txt",
        "git blame a.txt",
        "git ls-files -s",
        "git describe --tags --always",
        "git diff main",
        "git show main:src/b.txt",
    ],
)
def test_reading_says_inside_what_it_says_outside(
    git_box: Box, repository: Path, command: str
) -> None:
    """With files changed, staged, removed, new and ignored."""
    tree = git_box.root / "state/tree"
    (repository / ".git/info/exclude").write_text("*.log\n")
    (tree / "a.txt").write_text("one\nchanged\n")
    (tree / "src/b.txt").write_text("staged\n")
    (tree / "new.txt").write_text("new\n")
    (tree / "seen.log").write_text("ignored\n")
    git(tree, "add", "src/b.txt")
    (tree / "src/b.txt").write_text("staged and changed\n")
    view = GitView(str(show(git_box.root / "state", repository / ".git", "tree", "again")))
    box = evolve(git_box, place=evolve(git_box.place, git=view))

    inside = box.run(*command.split())

    assert inside.stderr == ""
    assert inside.stdout == git_bytes(tree, *command.split()[1:]).decode()


def test_what_a_person_staged_is_there_and_only_that(
    seeing: Callable[[], Box], repository: Path, tmp_path: Path
) -> None:
    """Blobs that only the index holds can be read, also of an unfinished merge."""
    tree = tmp_path / "state/tree"
    (tree / "a.txt").write_text("ours\n")
    git(tree, "commit", "-q", "-m", "ours", "a.txt")
    git(tree, "checkout", "-q", "-b", "theirs", "main")
    (tree / "a.txt").write_text("theirs\n")
    git(tree, "commit", "-q", "-m", "theirs", "a.txt")
    with pytest.raises(AssertionError, match="git merge"):
        git(tree, "merge", "-q", "@{-1}")
    (tree / "staged.txt").write_text("staged here\n")
    git(tree, "add", "staged.txt")

    box = seeing()

    assert box.run("git", "show", ":staged.txt").stdout == "staged here\n"
    sides = [box.run("git", "show", f":{stage}:a.txt").stdout for stage in (1, 2, 3)]
    assert sides == ["one\n", "theirs\n", "ours\n"]
    assert "both modified:   a.txt" in box.run("git", "status").stdout
    assert box.run("git", "log", "--format=%s").stdout == "theirs\nfirst commit\n"
