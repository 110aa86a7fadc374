"""What a repository can have git run or read, in a checkout of the user's: nothing of it is.

Each vector arms a repository so that git itself would fire the canary, which a control shows;
then a run begins there, is looked at, resumed and cleaned up.
"""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from attrs import frozen

import live_runs as live
import recovery_state as at
from daemon_process import GIT_ENVIRONMENT, DaemonProcess, git, make_repository
from shared_daemon import sh, shared_daemon

pytestmark = pytest.mark.long
HOOKS = (
    *("post-checkout", "post-commit", "pre-commit", "post-index-change", "reference-transaction"),
    *("post-merge", "pre-auto-gc", "fsmonitor-watchman"),
)


@frozen
class Vector:
    """How a repository is armed with a program, and what of git's own fires it.

    ``refused``: a run there is refused, with these words.
    """

    arm: Callable[[Path, str], None]
    fires: tuple[tuple[str, ...], ...]
    refused: str | None = None


def configured(*lines: str) -> Callable[[Path, str], None]:
    """Arm by configuration: names and values, in which PROGRAM is the program."""

    def arm(repo: Path, program: str) -> None:
        for line in lines:
            name, _, value = line.partition("=")
            git(repo, "config", name, value.replace("PROGRAM", program))

    return arm


def attributed(attribute: str, *lines: str) -> Callable[[Path, str], None]:
    """The same, with an attribute in the tree that leads there."""

    def arm(repo: Path, program: str) -> None:
        (repo / ".gitattributes").write_text(f"*.txt {attribute}\n")
        git(repo, "add", ".gitattributes")
        git(repo, "commit", "-qm", "attributes")
        configured(*lines)(repo, program)

    return arm


def hooks(repo: Path, program: str, where: str = ".git/hooks") -> None:
    """Put the program in each hook's place."""
    for name in HOOKS:
        hook = repo / where / name
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{program}\n")
        hook.chmod(0o755)


def hooks_in_the_tree(repo: Path, program: str) -> None:
    """Hooks that are committed, and the setting that leads to them."""
    hooks(repo, program, "hooks")
    git(repo, "add", "hooks")
    git(repo, "commit", "-qm", "hooks")
    git(repo, "config", "core.hooksPath", "hooks")


def included(repo: Path, program: str) -> None:
    """A file of the tree that the configuration includes."""
    (repo / "settings").write_text(f"[core]\n\tfsmonitor = {program}\n")
    git(repo, "add", "settings")
    git(repo, "commit", "-qm", "settings")
    git(repo, "config", "include.path", "../settings")


def lfs(repo: Path, program: str) -> None:
    """Large files, as git-lfs has them, with the endpoint's program in the tree."""
    attributed("filter=lfs", "filter.lfs.clean=PROGRAM; cat", "filter.lfs.required=true")(
        repo, program
    )
    (repo / ".lfsconfig").write_text(f"[lfs]\n\turl = ext::{program}\n")
    git(repo, "add", ".lfsconfig")
    git(repo, "-c", "filter.lfs.clean=cat", "commit", "-qm", "lfs")


def merging(repo: Path, program: str) -> None:
    """Two branches that changed the same file, which a driver is to merge."""
    attributed("merge=evil", "merge.evil.driver=PROGRAM; true")(repo, program)
    for branch in ("other", "main"):
        git(repo, "checkout", "-q", "-B", branch, "HEAD" if branch == "other" else "HEAD~1")
        (repo / "sub/b.txt").write_text(f"on {branch}\n")
        git(repo, "commit", "-qam", branch)


def nested(repo: Path, program: str) -> None:
    """A repository inside of it, with a monitor of its own."""
    make_repository(repo / "inner")
    git(repo / "inner", "config", "core.fsmonitor", program)


TOUCH = ("status",), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "x")
VECTORS: Mapping[str, Vector] = {
    "hooks": Vector(hooks, TOUCH),
    "core.hooksPath": Vector(hooks_in_the_tree, TOUCH),
    "core.fsmonitor": Vector(configured("core.fsmonitor=PROGRAM"), TOUCH),
    "core.editor": Vector(configured("core.editor=PROGRAM; :"), (("commit", "--amend"),)),
    "core.sshCommand": Vector(
        configured("core.sshCommand=PROGRAM; false", "remote.origin.url=ssh://nowhere.invalid/x"),
        (("fetch",),),
    ),
    "credential.helper": Vector(
        configured("credential.helper=!PROGRAM; false"), (("credential", "fill"),)
    ),
    "gpg.program": Vector(
        configured("gpg.program=PROGRAM", "commit.gpgSign=true", "user.signingKey=x"),
        (("commit", "-q", "--allow-empty", "-m", "x"),),
    ),
    "an alias": Vector(configured("alias.st=!PROGRAM"), (("st",),)),
    "diff.external": Vector(configured("diff.external=PROGRAM; :"), (("diff",),)),
    "a diff driver": Vector(attributed("diff=evil", "diff.evil.command=PROGRAM; :"), (("diff",),)),
    "a text converter": Vector(
        attributed("diff=evil", "diff.evil.textconv=PROGRAM; cat"), (("diff",),)
    ),
    "a merge driver": Vector(merging, (("merge", "-q", "other"),)),
    "a clean filter": Vector(
        attributed("filter=evil", "filter.evil.clean=PROGRAM; cat"),
        TOUCH,
        "filter=evil",
    ),
    "a smudge filter": Vector(
        attributed("filter=evil", "filter.evil.smudge=PROGRAM; cat"),
        (("checkout", "-q", "-f", "--", "a.txt"),),
        "filter=evil",
    ),
    "a process of a filter": Vector(
        attributed("filter=evil", "filter.evil.process=PROGRAM; false"), TOUCH, "filter=evil"
    ),
    "large files": Vector(lfs, TOUCH, "filter=lfs"),
    "an included file": Vector(included, TOUCH, "includes another configuration file"),
    "a nested repository": Vector(nested, (("-C", "inner", "status"),)),
}


@pytest.fixture(scope="module")
def daemon() -> Iterator[DaemonProcess]:
    """One daemon for the vectors, each with a repository of its own."""
    with shared_daemon() as process:
        yield process


@pytest.fixture
def fired(daemon: DaemonProcess) -> Path:
    """What is made by a program that is executed on the host."""
    path = daemon.root / "fired"
    path.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("name", VECTORS)
def test_what_a_repository_would_have_run_is_not(
    daemon: DaemonProcess, fired: Path, name: str
) -> None:
    """Neither at the start, nor when the tree is recorded, compared, resumed or removed."""
    vector = VECTORS[name]
    repo = make_repository(daemon.root / f"repo-{name.replace(' ', '-')}")
    program = daemon.root / "program"
    program.write_text(f"#!/bin/sh\ntouch {fired}\n")
    program.chmod(0o755)
    vector.arm(repo, str(program))
    fired.unlink(missing_ok=True)
    (repo / "a.txt").write_text("changed by the user\n")
    task = {"task": "armed", "agent": "demo"}
    if vector.refused is not None:
        with daemon.client() as client:
            error = live.refused(client.run.start, "say hi", dir=str(repo), **task)
        assert vector.refused in error.message
    else:
        prompt = "write a.txt changed by the agent\nwrite new.txt x\nrun git status"
        first = at.start(daemon, repo, prompt, **task)
        assert at.result(daemon, first)["outcome"] == "succeeded"
        with daemon.client() as client:
            second = client.run.resume(first, "write more.txt x")["run"]
            assert at.result(daemon, second)["outcome"] == "succeeded"
            assert "changed by the agent" in str(client.run.diff(first))
            client.daemon.cleanup(tasks=["armed"], dir=str(repo))
    assert not fired.exists()
    # git itself would have: the vector is armed.
    environment = {**os.environ, **GIT_ENVIRONMENT, "GIT_TERMINAL_PROMPT": "0"}
    for words in vector.fires:
        subprocess.run(
            ["git", *words],
            cwd=repo,
            env=environment,
            input=b"protocol=https\nhost=nowhere.invalid\n\n",
            capture_output=True,
            check=False,
        )
    assert fired.exists()


FORGED: Mapping[str, str] = {
    "a pointer": "mkdir inner; echo 'gitdir: {other}/.git' > inner/.git",
    "a pointer to a worktree's entry": (
        "mkdir inner; echo 'gitdir: {other}/.git/worktrees/theirs' > inner/.git"
    ),
    "a link": "mkdir inner; ln -s {other}/.git inner/.git",
    "a directory with another's common one": (
        "mkdir -p inner/.git; cd inner/.git; echo {other}/.git > commondir;"
        " echo 'ref: refs/heads/main' > HEAD; echo \"$PWD\" > gitdir"
    ),
    "a repository that borrows objects": (
        "git init -q -b main inner; echo {other}/.git/objects > inner/.git/objects/info/alternates;"
        " echo {head} > inner/.git/refs/heads/main"
    ),
    "a bare one that borrows objects": (
        "git init -q -b main --bare inner; cd inner;"
        " echo {other}/.git/objects > objects/info/alternates; echo {head} > refs/heads/main"
    ),
    "a bare one whose refs are links": (
        "git init -q -b main --bare inner; rm -r inner/refs/heads inner/objects;"
        " ln -s {other}/.git/refs/heads inner/refs/heads; ln -s {other}/.git/objects inner/objects"
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_an_agent_made_a_repository_is_none_to_the_next_run(
    daemon: DaemonProcess, name: str
) -> None:
    """A run that begins there would show its agent another repository of the user's: refused."""
    other = daemon.root / "other"
    if not other.exists():
        make_repository(other)
        (other / "private.txt").write_text("of the user's alone\n")
        git(other, "add", ".")
        git(other, "commit", "-qm", "private")
        git(other, "worktree", "add", "-q", "--detach", str(daemon.root / "theirs"))
    script = FORGED[name].format(other=other, head=git(other, "rev-parse", "HEAD"))
    task = f"forges-{list(FORGED).index(name)}"
    made = sh(daemon, daemon.root / "repo", script, task=task)
    inner = Path(made["worktree"]) / "inner"
    before = git(other, "for-each-ref"), git(other, "worktree", "list")
    with daemon.client() as client:
        error = live.refused(client.run.start, "say hi", dir=str(inner), agent="demo")
        ours = client.run.start("say hi", dir=made["worktree"], agent="demo", task=f"{task}-top")
        result = at.result(daemon, ours["run"])

    assert made["outcome"] == "succeeded", made["error"]
    assert error.name == "InvalidParams"
    assert (git(other, "for-each-ref"), git(other, "worktree", "list")) == before
    # The worktree itself is one, and leads to the repository that it is of.
    assert result["outcome"] == "succeeded"
    assert not (Path(result["worktree"]) / "private.txt").exists()
