"""Whatever a person or an agent left in a worktree, a ref leads to it before the worktree goes."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from attrs import frozen

from coachmand.repos.entries import parse_index
from coachmand.repos.pool import GitWorkers
from coachmand.repos.records import Salvage
from repos_fixtures import ENV, commit_all, fingerprint, git, listing, make_repo, write

RUN_REF = "refs/coachman/run/261129-220417-k7q3x"
REF = "refs/coachman/salvage/261129-220417-k7q3x"


@frozen
class Bench:
    """A repository and a task's worktree, whose last run is on record."""

    workers: GitWorkers
    repo: Path
    tree: Path
    base: str

    async def salvage(self, *declared: str, write: bool = True) -> Salvage:
        return await self.workers.salvage(
            str(self.repo / ".git"),
            str(self.tree),
            run_refs=[RUN_REF],
            base=self.base,
            ref=REF,
            message="coachman: salvage",
            declared=declared,
            write=write,
        )

    def files(self, revision: str = REF) -> dict[str, bytes]:
        return {name: content for name, (_, content) in listing(self.repo, revision).items()}

    def reachable(self) -> set[str]:
        """Every object that git keeps without the worktree's own entry."""
        lines = git(self.repo, "rev-list", "--objects", "--glob=refs/*").splitlines()
        return {line.split()[0] for line in lines}

    def blob(self, content: bytes) -> str:
        words = ["git", "hash-object", "--stdin"]
        done = subprocess.run(words, input=content, env=ENV, capture_output=True, check=True)
        return done.stdout.decode().strip()

    def keeps(self, content: bytes) -> bool:
        return self.blob(content) in self.reachable()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    repo, tree = tmp_path / "r", tmp_path / "t"
    base = make_repo(repo, {"a": b"1\n", "dir/b": b"2\n", ".gitignore": b"*.log\n.env\nbuild/\n"})
    async with GitWorkers() as workers:
        common = str(repo / ".git")
        admin = await workers.create_worktree(common, "task", str(tree), base)
        (tree / "a").write_bytes(b"of the run\n")
        await workers.snapshot(
            common, admin, str(tree), ref=RUN_REF, parents=(base,), message="a run"
        )
        yield Bench(workers, repo, tree, base)


async def test_a_tree_that_a_run_recorded_needs_no_salvage(bench: Bench) -> None:
    """Nothing is written; the record of the run holds it all."""
    found = await bench.salvage()

    assert (found.differs, found.refused, found.written) == ((), (), None)
    assert found.commit == git(bench.repo, "rev-parse", RUN_REF)
    assert found.bytes > 0
    assert not git(bench.repo, "for-each-ref", REF)


async def test_files_that_were_changed_after_the_run_are_kept(bench: Bench) -> None:
    """Changed, new and deleted files, modes and links, on top of the run's record."""
    write(bench.tree, {"a": b"by hand\n", "new/file": b"new\n"})
    (bench.tree / "dir/b").unlink()
    (bench.tree / "link").symlink_to("/elsewhere")
    found = await bench.salvage()

    assert found.written == found.commit == git(bench.repo, "rev-parse", REF)
    assert git(bench.repo, "rev-parse", f"{REF}^1") == git(bench.repo, "rev-parse", RUN_REF)
    assert bench.files() == {
        "a": b"by hand\n",
        "new/file": b"new\n",
        "link": b"/elsewhere",
        ".gitignore": b"*.log\n.env\nbuild/\n",
    }


async def test_looking_writes_no_ref(bench: Bench) -> None:
    """Without `write` the same is said, and nothing is kept."""
    write(bench.tree, {"new": b"new\n"})
    found = await bench.salvage(write=False)

    assert (len(found.differs), found.written) == (1, None)
    assert not git(bench.repo, "for-each-ref", REF)


async def test_a_second_salvage_of_the_same_writes_nothing_more(bench: Bench) -> None:
    """A crash behind the record loses nothing and doubles nothing."""
    write(bench.tree, {"new": b"new\n"})
    (bench.tree / "a").write_bytes(b"staged\n")
    git(bench.tree, "add", "a")
    (bench.tree / "a").write_bytes(b"later\n")
    first = await bench.salvage()
    again = await bench.salvage()

    assert first.written
    assert (again.written, again.commit) == (None, first.written)


async def test_an_earlier_salvage_of_the_same_run_stays_reachable(bench: Bench) -> None:
    """What the ref held before is a parent of what it holds now."""
    write(bench.tree, {"new": b"the first\n"})
    await bench.salvage()
    write(bench.tree, {"new": b"the second\n"})
    await bench.salvage()

    assert bench.keeps(b"the first\n")
    assert bench.files()["new"] == b"the second\n"


async def test_ignored_files_are_counted_and_those_declared_are_kept(bench: Bench) -> None:
    """Shell patterns name ignored work: by name anywhere, or by a path from the top."""
    write(
        bench.tree,
        {
            ".env": b"KEY=1\n",
            "dir/.env": b"KEY=2\n",
            "build/report/x.html": b"report\n",
            "build/big.o": b"0" * 9000,
            "x.log": b"log\n",
        },
    )
    found = await bench.salvage(".env", "build/report")

    assert found.ignored_files == 2
    assert found.ignored_bytes >= 9000
    kept = set(bench.files())
    assert {".env", "dir/.env", "build/report/x.html"} <= kept
    assert not {"build/big.o", "x.log"} & kept


async def test_an_ignored_file_that_was_staged_by_force_is_kept(bench: Bench) -> None:
    """It is tracked by the index: its newest content and the staged one are both work."""
    write(bench.tree, {"x.log": b"staged\n"})
    git(bench.tree, "add", "-f", "x.log")
    write(bench.tree, {"x.log": b"newer\n"})
    await bench.salvage()

    assert bench.keeps(b"staged\n")
    assert bench.files()["x.log"] == b"newer\n"


async def test_commits_made_by_hand_are_kept(bench: Bench) -> None:
    """The detached HEAD, and the commit that an amended one replaced."""
    write(bench.tree, {"a": b"first try\n"})
    replaced = commit_all(bench.tree)
    write(bench.tree, {"a": b"second try\n"})
    git(bench.tree, "commit", "-q", "-a", "--amend", "-m", "again")
    head = git(bench.tree, "rev-parse", "HEAD")
    found = await bench.salvage()

    assert found.written
    assert {replaced, head} <= bench.reachable()


async def test_a_commit_that_a_branch_keeps_is_no_reason_for_a_salvage(bench: Bench) -> None:
    """Only what no ref leads to is kept anew."""
    git(bench.tree, "checkout", "-q", "-b", "mine")
    write(bench.tree, {"a": b"of the run\n"})
    commit_all(bench.tree)
    (bench.repo / ".git/worktrees/task/COMMIT_EDITMSG").unlink()

    assert (await bench.salvage()).differs == ()


async def test_an_unfinished_merge_is_kept_with_all_its_stages(bench: Bench) -> None:
    """Base, ours and theirs of a conflict, the message, and the other side's commit."""
    git(bench.tree, "checkout", "-q", "--detach", bench.base)
    git(bench.tree, "checkout", "-q", "--", ".")
    write(bench.tree, {"a": b"theirs\n"})
    theirs = commit_all(bench.tree)
    git(bench.tree, "checkout", "-q", "--detach", bench.base)
    write(bench.tree, {"a": b"ours\n"})
    ours = commit_all(bench.tree)
    with pytest.raises(AssertionError):
        git(bench.tree, "merge", theirs)
    (bench.repo / ".git/worktrees/task/MERGE_MSG").write_bytes(b"half a message\n")
    await bench.salvage()

    assert {ours, theirs} <= bench.reachable()
    assert all(bench.keeps(each) for each in (b"1\n", b"ours\n", b"theirs\n", b"half a message\n"))
    assert b"<<<<<<<" in bench.files()["a"]
    stages = git(bench.repo, "log", "--format=%s", f"{REF}^2^1", f"{REF}^2^2", f"{REF}^2^3")
    assert [line[-14:] for line in sorted(stages.splitlines()) if "stage" in line]


async def test_what_was_staged_and_changed_again_is_kept(bench: Bench) -> None:
    """The index alone leads to its content."""
    write(bench.tree, {"a": b"staged\n", "only": b"staged and deleted\n"})
    git(bench.tree, "add", "a", "only")
    write(bench.tree, {"a": b"newer\n"})
    (bench.tree / "only").unlink()
    await bench.salvage()

    kept = (b"staged\n", b"staged and deleted\n", b"newer\n")
    assert all(bench.keeps(content) for content in kept)


async def test_what_lies_in_a_submodules_folder_is_kept(tmp_path: Path, bench: Bench) -> None:
    """Its folder is left empty by coachman; files that somebody put there are work."""
    repo, tree = tmp_path / "r2", tmp_path / "t2"
    base = make_repo(repo, {"a": b"1\n"})
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{base},sub")
    git(repo, "commit", "-q", "-m", "a submodule")
    base = git(repo, "rev-parse", "HEAD")
    await bench.workers.create_worktree(str(repo / ".git"), "task", str(tree), base)
    git(repo, "update-ref", RUN_REF, base)
    other = Bench(bench.workers, repo, tree, base)

    assert (await other.salvage()).differs == ()
    write(tree, {"sub/file": b"in a submodule's folder\n"})
    await other.salvage()

    assert other.files()["sub/file"] == b"in a submodule's folder\n"


def nested(bench: Bench) -> None:
    make_repo(bench.tree / "inner", {"x": b"its own history\n"})


def pipe(bench: Bench) -> None:
    os.mkfifo(bench.tree / "pipe")


def own_repository(bench: Bench) -> None:
    (bench.tree / ".git").unlink()
    make_repo(bench.tree / "x", {"y": b"1\n"})
    (bench.tree / "x/.git").rename(bench.tree / ".git")


def at_work(bench: Bench) -> None:
    (bench.repo / ".git/worktrees/task/index.lock").touch()


def too_deep(bench: Bench) -> None:
    write(bench.tree, {"/".join(["d"] * 300) + "/file": b"deep\n"})


def submodule(bench: Bench) -> None:
    write(bench.repo / ".git/worktrees/task/modules/sub", {"HEAD": b"ref: refs/heads/x\n"})


@pytest.mark.parametrize(
    ("leave", "why"),
    [
        (nested, "inner/.git: a repository inside the tree"),
        (pipe, "pipe: it is neither a file nor a link"),
        (own_repository, ".git: it is not coachman's"),
        (at_work, "a git command is at work there, or died: index.lock"),
        (too_deep, "it is deeper than 256 folders"),
        (submodule, "a submodule's own repository"),
    ],
)
async def test_what_no_commit_can_hold_is_refused_by_name(
    bench: Bench, leave: Callable[[Bench], None], why: str
) -> None:
    """Nothing is written, and the reason names the path."""
    leave(bench)
    found = await bench.salvage()

    assert why in " ".join(found.refused)
    assert found.written is None


async def test_what_is_special_and_ignored_goes_with_what_is_ignored(bench: Bench) -> None:
    """A repository or a pipe in an ignored folder is nobody's work."""
    make_repo(bench.tree / "build/inner", {"x": b"x\n"})
    os.mkfifo(bench.tree / "build/pipe")

    assert (await bench.salvage()).refused == ()


async def test_a_worktree_whose_tree_is_gone_still_has_its_commits_kept(bench: Bench) -> None:
    """Somebody deleted the folder: what was committed there is only in its entry."""
    write(bench.tree, {"a": b"by hand\n"})
    head = commit_all(bench.tree)
    shutil.rmtree(bench.tree)
    found = await bench.salvage()

    assert found.written
    assert head in bench.reachable()


async def test_a_tree_whose_entry_is_gone_is_still_kept(bench: Bench) -> None:
    """Somebody deleted the entry: the files are compared all the same."""
    write(bench.tree, {"new": b"new\n"})
    shutil.rmtree(bench.repo / ".git/worktrees")
    found = await bench.salvage()

    assert found.admin is None
    assert bench.files()["new"] == b"new\n"


async def test_a_run_whose_ref_was_deleted_is_kept_anew(bench: Bench) -> None:
    """What only the ref led to is in the salvage record then."""
    git(bench.repo, "update-ref", "-d", RUN_REF)
    await bench.salvage()

    assert bench.files()["a"] == b"of the run\n"


async def test_nothing_of_the_persons_own_is_touched(bench: Bench) -> None:
    """Checkout, index, HEAD, branches and configuration are as they were."""
    write(bench.tree, {"a": b"by hand\n"})
    commit_all(bench.tree)
    before = fingerprint(bench.repo)
    await bench.salvage()

    assert fingerprint(bench.repo) == before


@pytest.mark.parametrize("version", ["2", "3", "4"])
async def test_every_version_of_the_index_is_read_as_git_reads_it(
    bench: Bench, version: str
) -> None:
    """Long and shared names, an intended file that holds nothing yet, a flag of version 3."""
    names = {f"folder/{'n' * length}/f": b"%d\n" % length for length in (1, 7, 8, 120, 200)}
    write(bench.tree, {**names, "folder/intended": b"not staged\n"})
    git(bench.tree, "add", "folder")
    git(bench.tree, "rm", "-q", "--cached", "folder/intended")
    git(bench.tree, "add", "-N", "folder/intended")
    git(bench.tree, "update-index", "--skip-worktree", "dir/b")
    git(bench.tree, "update-index", "--index-version", version)
    data = (bench.repo / ".git/worktrees/task/index").read_bytes()
    stages = parse_index(data)

    listed = git(bench.tree, "ls-files", "-s", "-z").split("\0")
    told = {line.split("\t")[1]: line.split()[:2] for line in listed if line}
    del told["folder/intended"]
    found = {path.decode(): [mode.decode(), oid.hex()] for path, (mode, oid) in stages[0]}
    assert (list(stages), found) == ([0], told)
