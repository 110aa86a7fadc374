"""Task worktrees beside a person's own work."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from coachmand.repos.errors import RepoError
from coachmand.repos.pool import GitWorkers
from repos_fixtures import commit_all, fingerprint, git, make_repo, write, write_raw

FILES = {"a": b"1\n", "dir/b": b"2\n", "dir/deep/c": b"3\n", "tool": b"#!/bin/sh\n"}


@pytest.fixture
async def workers() -> AsyncIterator[GitWorkers]:
    async with GitWorkers() as running:
        yield running


def make_rich_repo(path: Path) -> str:
    """A repository with a program, a link, a dangling link and a name that is not UTF-8."""
    make_repo(path, FILES)
    (path / "tool").chmod(0o755)
    (path / "link").symlink_to("dir/b")
    (path / "nowhere").symlink_to("/does/not/exist")
    write_raw(os.fsencode(path) + b"/caf\xe9", b"latin")
    return commit_all(path)


async def test_a_worktree_is_what_git_would_make(workers: GitWorkers, tmp_path: Path) -> None:
    """Files, modes, links and odd names arrive; git's own status, list and log agree."""
    repo, tree = tmp_path / "r", tmp_path / "t"
    head = make_rich_repo(repo)
    before = fingerprint(repo)

    admin = await workers.create_worktree(str(repo / ".git"), "task", str(tree), head)

    assert admin == str(repo / ".git/worktrees/task")
    assert (tree / "dir/deep/c").read_bytes() == b"3\n"
    assert stat.S_IMODE((tree / "tool").stat().st_mode) & 0o111
    assert os.readlink(tree / "link") == "dir/b"
    assert b"caf\xe9" in os.listdir(os.fsencode(tree))
    assert git(tree, "status", "--porcelain=v2", "--branch").splitlines() == [
        f"# branch.oid {head}",
        "# branch.head (detached)",
    ]
    assert git(repo, "worktree", "list").splitlines()[1].split()[1:] == [
        head[:7],
        "(detached",
        "HEAD)",
        "locked",
    ]
    assert git(repo, "fsck", "--strict") == ""
    assert fingerprint(repo) == before


async def test_line_ends_and_idents_are_converted_on_the_way_out(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Attributes that libgit2 knows are honoured as git does."""
    repo, tree = tmp_path / "r", tmp_path / "t"
    attributes = b"*.txt text eol=crlf\n*.id ident\n"
    head = make_repo(repo, {".gitattributes": attributes, "a.txt": b"1\n2\n", "b.id": b"$Id$\n"})

    await workers.create_worktree(str(repo / ".git"), "task", str(tree), head)

    assert (tree / "a.txt").read_bytes() == b"1\r\n2\r\n"
    assert (tree / "b.id").read_bytes().startswith(b"$Id: ")
    assert git(tree, "status", "--porcelain") == ""


async def test_sixteen_at_once_all_come_out(workers: GitWorkers, tmp_path: Path) -> None:
    """Equal names and a racing `git worktree prune` fail nobody."""
    repo = tmp_path / "r"
    head = make_repo(repo, FILES)
    made: list[str] = []

    async def create(number: int) -> None:
        made.append(
            await workers.create_worktree(
                str(repo / ".git"), "same", str(tmp_path / f"t{number}"), head
            )
        )

    async def prune() -> None:
        for _ in range(20):
            await trio.to_thread.run_sync(git, repo, "worktree", "prune", "--expire=now")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(prune)
        for number in range(16):
            nursery.start_soon(create, number)

    assert len(set(made)) == 16
    assert len(git(repo, "worktree", "list").splitlines()) == 17
    for number in range(16):
        assert git(tmp_path / f"t{number}", "status", "--porcelain") == ""


async def test_prune_and_gc_leave_a_live_worktree_alone(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Even while its tree is out of sight the entry stays, and its objects stay with it."""
    repo, tree = tmp_path / "r", tmp_path / "t"
    head = make_repo(repo, FILES)
    common = str(repo / ".git")
    admin = await workers.create_worktree(common, "task", str(tree), head)
    write(tree, {"new": b"work"})
    made = await workers.snapshot(
        common, admin, str(tree), ref="refs/coachman/run/x", parents=[head], message="m"
    )
    tree.rename(tmp_path / "aside")

    git(repo, "worktree", "prune", "--expire=now")
    git(repo, "gc", "-q", "--prune=now")
    (tmp_path / "aside").rename(tree)

    assert git(tree, "rev-parse", "HEAD") == head
    assert git(repo, "show", f"{made.commit}:new") == "work"
    again = await workers.snapshot(
        common, admin, str(tree), ref="refs/coachman/run/x", parents=[made.commit], message="m"
    )
    assert again.changed is False


async def test_nothing_is_checked_out_over_something(workers: GitWorkers, tmp_path: Path) -> None:
    """A directory with files in it and a link are refused and stay as they are."""
    repo = tmp_path / "r"
    head = make_repo(repo, FILES)
    write(tmp_path, {"full/work": b"precious"})
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")

    for name in ("full", "link"):
        with pytest.raises(RepoError) as refused:
            await workers.create_worktree(str(repo / ".git"), "t", str(tmp_path / name), head)
        assert refused.value.name == "exists"
    await workers.create_worktree(str(repo / ".git"), "t", str(tmp_path / "empty"), head)

    assert (tmp_path / "full/work").read_bytes() == b"precious"


async def test_an_unknown_commit_leaves_nothing_behind(workers: GitWorkers, tmp_path: Path) -> None:
    """A creation that fails takes its entry and its tree away again."""
    repo = tmp_path / "r"
    make_repo(repo, FILES)

    with pytest.raises(RepoError) as refused:
        await workers.create_worktree(str(repo / ".git"), "t", str(tmp_path / "t"), "1" * 40)

    assert refused.value.name == "unknown_revision"
    assert not (tmp_path / "t").exists()
    assert not (repo / ".git/worktrees").exists()


async def test_a_cancelled_creation_leaves_nothing_behind(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Whenever the caller goes away, tree and entry go too, also half written."""
    repo, tree = tmp_path / "r", tmp_path / "t"
    head = make_repo(repo, {f"d{n % 50}/f{n}": b"%d" % n for n in range(3000)})
    cancelled = 0
    for delay_ms in range(2, 60, 6):
        with trio.move_on_after(delay_ms / 1000) as scope:
            await workers.create_worktree(str(repo / ".git"), "t", str(tree), head)
        cancelled += scope.cancelled_caught
        if scope.cancelled_caught:
            assert not tree.exists()
            assert not (repo / ".git/worktrees").exists()
        else:
            await workers.remove_worktree(
                str(repo / ".git"), str(repo / ".git/worktrees/t"), str(tree)
            )

    assert cancelled > 0
    assert not list(repo.glob(".git/coachman*"))


async def test_an_interrupted_creation_is_taken_over(workers: GitWorkers, tmp_path: Path) -> None:
    """An entry that names the same, now empty tree is replaced and not added to."""
    repo, tree = tmp_path / "r", tmp_path / "t"
    head = make_repo(repo, FILES)
    first = await workers.create_worktree(str(repo / ".git"), "t", str(tree), head)
    await workers.delete_tree(str(tree))

    second = await workers.create_worktree(str(repo / ".git"), "t", str(tree), head)

    assert second == first
    assert len(git(repo, "worktree", "list").splitlines()) == 2


async def test_removal_is_complete_and_idempotent(workers: GitWorkers, tmp_path: Path) -> None:
    """Tree and entry go, a second removal does nothing, the user's own worktree stays."""
    repo, tree = tmp_path / "r", tmp_path / "t"
    head = make_repo(repo, FILES)
    git(repo, "worktree", "add", "--detach", str(tmp_path / "own"))
    before = fingerprint(repo)
    admin = await workers.create_worktree(str(repo / ".git"), "t", str(tree), head)

    for _ in range(2):
        await workers.remove_worktree(str(repo / ".git"), admin, str(tree))

    assert not tree.exists()
    assert [line.split()[0] for line in git(repo, "worktree", "list").splitlines()] == [
        str(repo),
        str(tmp_path / "own"),
    ]
    assert fingerprint(repo) == before


async def test_an_entry_of_somebody_else_is_not_removed(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """The entry must lie in this repository and name the tree that is removed."""
    repo = tmp_path / "r"
    make_repo(repo, FILES)
    git(repo, "worktree", "add", "--detach", str(tmp_path / "own"))
    common, own = str(repo / ".git"), str(repo / ".git/worktrees/own")

    for admin in (own, str(repo / ".git/objects"), str(tmp_path / "own")):
        with pytest.raises(RepoError) as refused:
            await workers.remove_worktree(common, admin, str(tmp_path / "other"))
        assert refused.value.name == "worktree_moved"

    assert git(tmp_path / "own", "status", "--porcelain") == ""


async def test_trees_with_hostile_names_are_not_checked_out(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """A commit whose tree holds `..` or `.git` fails and writes nothing outside."""
    repo = tmp_path / "r"
    make_repo(repo, {"a": b"1"})
    blob = git(repo, "rev-parse", "HEAD:a")
    for name in (b"..", b".git", b".GIT", b"a/b", b"git~1"):
        entry = b"100644 %s\0" % name + bytes.fromhex(blob)
        where = tmp_path / "tree"
        where.write_bytes(entry)
        tree = git(repo, "hash-object", "-t", "tree", "--literally", "-w", str(where))
        commit = git(repo, "commit-tree", "-m", "hostile", tree)
        with pytest.raises(RepoError):
            await workers.create_worktree(str(repo / ".git"), "t", str(tmp_path / "t"), commit)
        assert not (tmp_path / "t").exists()
