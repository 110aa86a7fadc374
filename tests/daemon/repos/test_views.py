"""Git views as they are kept: what is packed when, what a kill leaves, what goes."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio

from coachmand.failpoints import VARIABLE, VIEW_STEPS
from coachmand.repos import views
from coachmand.repos.errors import RepoError
from coachmand.repos.pool import GitWorkers
from repo_views import GIT, show_with
from repos_fixtures import commit_all, git, git_bytes, make_repo, write


@pytest.fixture
async def workers() -> AsyncIterator[GitWorkers]:
    async with GitWorkers() as running:
        yield running


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "views"
    path.mkdir()
    return path


def objects_of(view: Path) -> dict[str, str]:
    """What a view's packs hold, by id."""
    (view / "info").mkdir(exist_ok=True)
    (view / "info/alternates").unlink(missing_ok=True)
    listing = "cat-file --batch-all-objects --batch-check=%(objectname)|%(objecttype)"
    env = {"GIT_OBJECT_DIRECTORY": str(view)}
    made = view.parent.parent / f"look-{view.name}"
    if not made.exists():
        git(view.parent.parent, "init", "-q", "--bare", made.name)
    lines = git(made, "-c", "core.hooksPath=/", *listing.split(), env=env).splitlines()
    return dict(line.split("|") for line in lines)


def reachable(repo: Path, commit: str) -> set[str]:
    """What git says a commit reaches."""
    listed = git(repo, "rev-list", "--objects", "--no-object-names", commit)
    return set(listed.split())


async def make(workers: GitWorkers, repo: Path, kept: Path, commit: str) -> str:
    return await workers.make_view(str(repo / ".git"), str(kept), commit, GIT)


def packs(view: Path) -> dict[str, int]:
    """A view's packs and which file on the disk each one is."""
    return {path.name: path.stat().st_ino for path in (view / "pack").glob("*.pack")}


async def test_a_view_holds_what_its_base_reaches_and_nothing_else(
    workers: GitWorkers, tmp_path: Path, kept: Path
) -> None:
    """To the object, for packed and loose objects, and with other branches beside it."""
    repo = tmp_path / "r"
    make_repo(repo, {"a": b"1", "d/b": b"2"})
    git(repo, "repack", "-adq")
    write(repo, {"d/b": b"3"})
    base = commit_all(repo)
    write(repo, {"later": b"4"})
    commit_all(repo)

    assert await make(workers, repo, kept, base) == "whole"

    assert set(objects_of(kept / base)) == reachable(repo, base)


async def test_the_same_base_makes_no_pack_and_a_child_an_increment(
    workers: GitWorkers, tmp_path: Path, kept: Path
) -> None:
    """A child's view links its parent's pack and adds one of what is new; a sibling's as well."""
    repo = tmp_path / "r"
    base = make_repo(repo, {"a": b"1", "b": b"2"})
    assert await make(workers, repo, kept, base) == "whole"
    before = packs(kept / base)

    assert await make(workers, repo, kept, base) == "nothing"
    assert packs(kept / base) == before
    children = []
    for name in ("left", "right"):
        git(repo, "checkout", "-q", "-b", name, base)
        write(repo, {name: b"new"})
        children.append(commit_all(repo))
        assert await make(workers, repo, kept, children[-1]) == "increment"

    for child in children:
        assert packs(kept / child).items() > before.items()
        assert len(packs(kept / child)) == 2
        assert set(objects_of(kept / child)) == reachable(repo, child)


async def test_a_view_of_what_is_no_ancestor_lends_nothing(
    workers: GitWorkers, tmp_path: Path, kept: Path
) -> None:
    """A base that lies before a kept one, or beside it, is packed whole."""
    repo = tmp_path / "r"
    first = make_repo(repo, {"a": b"1"})
    write(repo, {"secret": b"s"})
    second = commit_all(repo)
    assert await make(workers, repo, kept, second) == "whole"

    assert await make(workers, repo, kept, first) == "whole"

    assert set(objects_of(kept / first)) == reachable(repo, first)


async def test_a_long_chain_is_made_short_again(
    workers: GitWorkers, tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many bases follow each other, a view has few packs, and all of its objects."""
    repo = tmp_path / "r"
    base = make_repo(repo, {"a": os.urandom(40_000)})
    await make(workers, repo, kept, base)
    made = []
    for number in range(2 * views.MAX_PACKS):
        write(repo, {"a": b"%d" % number})
        base = commit_all(repo)
        made.append(await make(workers, repo, kept, base))

        assert len(packs(kept / base)) <= views.MAX_PACKS
    assert set(objects_of(kept / base)) == reachable(repo, base)
    assert "whole" not in made


@pytest.mark.parametrize("step", VIEW_STEPS)
async def test_a_kill_at_any_step_leaves_a_view_whole_or_absent(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The next one makes it, if it has to, and nothing half-made stays."""
    repo = tmp_path / "r"
    first = make_repo(repo, {"a": b"1"})
    write(repo, {"b": b"2"})
    second = commit_all(repo)
    async with GitWorkers() as workers:
        await make(workers, repo, kept, first)
    monkeypatch.setenv(VARIABLE, f"{step}:kill")
    async with GitWorkers() as workers:
        with pytest.raises(RepoError, match="SIGKILL"):
            await make(workers, repo, kept, second)
    monkeypatch.delenv(VARIABLE)

    for name in os.listdir(kept):
        if name.startswith(".new-"):
            os.utime(kept / name, (0, 0))
    is_whole = step == "view.placed"
    assert (kept / second).exists() == is_whole
    async with GitWorkers() as workers:
        made = await make(workers, repo, kept, second)
        write(repo, {"c": b"3"})
        third = commit_all(repo)
        await make(workers, repo, kept, third)

    assert made == ("nothing" if is_whole else "increment")
    assert set(objects_of(kept / second)) == reachable(repo, second)
    assert set(os.listdir(kept)) == {first, second, third}


async def test_a_damaged_view_is_made_anew(workers: GitWorkers, tmp_path: Path, kept: Path) -> None:
    """A pack that is gone, short, or not described is noticed before anybody sees it."""
    repo = tmp_path / "r"
    base = make_repo(repo, {"a": b"1"})
    for damage in (
        lambda: next((kept / base / "pack").glob("*.pack")).unlink(),
        lambda: next((kept / base / "pack").glob("*.idx")).unlink(),
        lambda: (kept / base / "view.json").write_text("{"),
        lambda: (kept / base / "view.json").write_text("[]"),
    ):
        await make(workers, repo, kept, base)
        damage()
        assert await make(workers, repo, kept, base) == "whole"
    assert set(objects_of(kept / base)) == reachable(repo, base)
    assert os.listdir(kept) == [base]


async def test_many_at_once_pack_once(workers: GitWorkers, tmp_path: Path, kept: Path) -> None:
    """Whoever wants the same view at the same time waits for the first."""
    repo = tmp_path / "r"
    base = make_repo(repo, {"a": b"1"})
    made: list[str] = []

    async def one() -> None:
        made.append(await make(workers, repo, kept, base))

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(one)

    assert sorted(made) == ["nothing"] * 7 + ["whole"]


def test_the_least_recently_used_go_and_those_that_are_used_stay_readable(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bounds the oldest go, never the newest; what a run has linked stays."""
    monkeypatch.setattr(views, "MAX_VIEWS", 2)
    for age, name in enumerate("dcba"):
        (kept / name / "pack").mkdir(parents=True)
        (kept / name / "pack/pack-1.pack").write_bytes(name.encode() * 100)
        (kept / name / "view.json").write_text("{}")
        os.utime(kept / name / "view.json", (1000 - age, 1000 - age))
    os.link(kept / "a/pack/pack-1.pack", tmp_path / "linked")

    views.tidy(kept, keep="a")
    assert sorted(os.listdir(kept)) == ["a", "d"]
    monkeypatch.setattr(views, "MAX_BYTES", 1)
    views.tidy(kept)
    assert os.listdir(kept) == ["d"]
    assert (tmp_path / "linked").read_bytes() == b"a" * 100


async def test_what_nobody_used_for_long_goes(
    workers: GitWorkers, tmp_path: Path, kept: Path
) -> None:
    """A use makes a view young again; with the last one its folder goes."""
    repo = tmp_path / "r"
    old = make_repo(repo, {"a": b"1"})
    await make(workers, repo, kept, old)
    write(repo, {"a": b"2"})
    used = commit_all(repo)
    git(repo, "worktree", "add", "-q", "--detach", str(tmp_path / "w"))
    await make(workers, repo, kept, used)
    for name in (old, used):
        os.utime(kept / name / "view.json", (0, 0))
    await show_with(workers, tmp_path, repo / ".git", "w", "run")

    await workers.tidy_views(str(kept), 3600.0)
    assert os.listdir(kept) == [used]
    await workers.tidy_views(str(kept), 0.0)
    await workers.tidy_views(str(kept), 0.0)

    assert "views" not in os.listdir(tmp_path)
    assert git(tmp_path / "run", "fsck", "--full") == ""


async def test_what_a_repository_says_does_not_run(
    workers: GitWorkers, tmp_path: Path, kept: Path
) -> None:
    """Hooks, fsmonitor, filters, pagers and replacements of a repository play no part."""
    repo, ran = tmp_path / "r", tmp_path / "ran"
    base = make_repo(repo, {"a": b"1"})
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\necho x > {ran}\n")
    evil.chmod(0o755)
    write(repo, {"canary": b"of another commit"})
    git(repo, "add", "canary")
    tree = git(repo, "write-tree")
    other = git(repo, "commit-tree", "-m", "other", tree)
    git(repo, "replace", base, other)
    for name in ("core.fsmonitor", "core.pager", "filter.x.clean", "pack.packSizeLimit"):
        git(repo, "config", name, "1" if name.startswith("pack") else str(evil))
    git(repo, "config", "uploadpack.packObjectsHook", str(evil))
    git(repo, "config", "core.hooksPath", str(tmp_path))

    await make(workers, repo, kept, base)

    env = {"GIT_NO_REPLACE_OBJECTS": "1"}
    listed = git(repo, "rev-list", "--objects", "--no-object-names", base, env=env)
    assert set(objects_of(kept / base)) == set(listed.split())
    assert not ran.exists()


async def test_what_packs_can_read_objects_and_write_views_and_no_more(
    workers: GitWorkers, tmp_path: Path, kept: Path
) -> None:
    """A program in git's place reaches neither configuration nor checkout, nor anything else."""
    repo, told = tmp_path / "r", kept / ".told"
    base = make_repo(repo, {"a": b"1"})
    git(repo, "remote", "add", "origin", "https://user:hunter2secret@example.org/r.git")
    secret = tmp_path / "secret"
    secret.write_text("canary")
    wanted = (repo / ".git/config", repo / "a", secret, Path("/etc/passwd"))
    program = tmp_path / "own/bin/git"
    program.parent.mkdir(parents=True)
    reads = "\n".join(f"cat '{path}' >> '{told}' && echo got >> '{told}'" for path in wanted)
    writes = f"echo x > '{repo}/.git/hooks/post-commit'; echo x > '{tmp_path}/planted'"
    program.write_text(f"#!/bin/sh\necho ran > '{told}'\n{reads}\n{writes}\nexec {GIT} \"$@\"\n")
    program.chmod(0o755)

    made = await workers.make_view(str(repo / ".git"), str(kept), base, str(program))

    assert made == "whole"
    assert told.read_text() == "ran\n"
    assert sorted(os.listdir(tmp_path)) == ["own", "r", "secret", "views"]
    assert not (repo / ".git/hooks/post-commit").exists()


@pytest.mark.parametrize("name", ["a b", 'q"uote', "co:lon", "back\\slash", "new\nline", "ünï"])
async def test_whatever_a_path_holds(workers: GitWorkers, tmp_path: Path, name: str) -> None:
    """Repositories and states whose names git would read as something else."""
    repo, kept = tmp_path / name, tmp_path / f"views {name}"
    kept.mkdir()
    base = make_repo(repo, {"a": b"1"})

    assert await make(workers, repo, kept, base) == "whole"
    assert set(objects_of(kept / base)) == reachable(repo, base)


async def test_a_shallow_clone_shows_as_far_as_it_goes(workers: GitWorkers, tmp_path: Path) -> None:
    """Its history ends inside where it ends outside; once it is deepened, the view is another."""
    origin, clone = tmp_path / "o", tmp_path / "c"
    make_repo(origin, {"a": b"1"})
    for number in range(3):
        write(origin, {"a": b"%d" % number})
        head = commit_all(origin)
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{origin}", "c")
    git(clone, "worktree", "add", "-q", "--detach", str(tmp_path / "w"))

    shown = await show_with(workers, tmp_path, clone / ".git", "w", "one")
    assert git(shown, "log", "--format=%H") == git(clone, "log", "--format=%H", head)
    assert git(shown, "rev-list", "--count", "HEAD") == "2"
    git(clone, "fetch", "-q", "--unshallow")
    whole = await show_with(workers, tmp_path, clone / ".git", "w", "two")
    assert git(whole, "rev-list", "--count", "HEAD") == "4"
    assert git(whole, "fsck", "--full") == ""


BORROWING: dict[str, Callable[[Path, Path], object]] = {
    "absolute": lambda origin, clone: git(
        clone.parent, "clone", "-q", "-s", str(origin), clone.name
    ),
    "relative": lambda origin, clone: (
        git(clone.parent, "clone", "-q", "-s", str(origin), clone.name),
        (clone / ".git/objects/info/alternates").write_text("../../../o/.git/objects\n"),
    ),
}


@pytest.mark.parametrize("how", BORROWING)
async def test_borrowed_objects_are_packed_as_own_ones(
    workers: GitWorkers, tmp_path: Path, kept: Path, how: str
) -> None:
    """A repository that borrows its objects has a view that borrows nothing."""
    origin, clone = tmp_path / "o", tmp_path / "c"
    base = make_repo(origin, {"a": b"1"})
    BORROWING[how](origin, clone)

    await make(workers, clone, kept, base)

    assert set(objects_of(kept / base)) == reachable(origin, base)


async def test_a_commit_that_is_missing_is_an_error(
    workers: GitWorkers, tmp_path: Path, kept: Path
) -> None:
    """It says what git says, and leaves nothing behind."""
    repo = tmp_path / "r"
    base = make_repo(repo, {"a": b"1"})
    blob = git_bytes(repo, "rev-parse", "HEAD:a").decode().strip()
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(RepoError, match=f"cannot pack what the base reaches: .*{blob}") as failed:
        await make(workers, repo, kept, base)

    assert failed.value.hint is not None
    assert os.listdir(kept) == []
