"""Finding a repository, and refusing by name what libgit2 would get wrong."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coachmand.repos import names
from coachmand.repos.errors import RepoError
from coachmand.repos.pool import GitWorkers
from repos_fixtures import commit_all, fingerprint, git, make_repo, write


@pytest.fixture
async def workers() -> AsyncIterator[GitWorkers]:
    async with GitWorkers() as running:
        yield running


async def test_a_subfolder_leads_to_its_repository(workers: GitWorkers, tmp_path: Path) -> None:
    """From a directory inside a checkout its top, prefix, head, branch and changes are known."""
    repo = tmp_path / "r"
    head = make_repo(repo, {"a/b/c": b"1", "d": b"2"})
    write(repo, {"new": b"", "d": b"changed"})
    before = fingerprint(repo)

    found = await workers.inspect(str(repo / "a/b"))

    assert (found.toplevel, found.common_dir) == (str(repo), str(repo / ".git"))
    assert (await workers.locate(str(repo / "a"))).common_dir == found.common_dir
    assert (found.prefix, found.head, found.branch) == ("a/b", head, "main")
    assert (found.uncommitted, found.refused, found.warnings) == (2, None, ())
    assert fingerprint(repo) == before


async def test_a_linked_worktree_and_an_unborn_head_are_repositories(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """A worktree of the user shares the common directory; nothing committed is no head."""
    repo = tmp_path / "r"
    head = make_repo(repo, {"a": b"1"})
    git(repo, "worktree", "add", "--detach", str(tmp_path / "w"))
    git(tmp_path, "init", "-q", "empty")

    linked = await workers.inspect(str(tmp_path / "w"))
    unborn = await workers.inspect(str(tmp_path / "empty"))

    assert (linked.common_dir, linked.head, linked.branch) == (str(repo / ".git"), head, None)
    assert (unborn.head, unborn.branch, unborn.refused) == (None, None, None)


async def test_no_repository_is_an_error_with_ways_out(workers: GitWorkers, tmp_path: Path) -> None:
    """Outside of any repository, and in a checkout's git directory, the error says what to do."""
    git(tmp_path, "init", "-q", "checkout")
    (tmp_path / "plain").mkdir()

    with pytest.raises(RepoError, match="neither it nor a directory above") as nothing:
        await workers.inspect(str(tmp_path / "plain"))
    with pytest.raises(RepoError, match="the git directory of a checkout") as inner:
        await workers.inspect(str(tmp_path / "checkout/.git/refs"))

    assert nothing.value.name == "not_a_repository"
    assert nothing.value.hint is not None
    assert (inner.value.name, inner.value.hint) == ("unsupported_repository", "name the checkout")


async def test_a_bare_repository_and_its_worktrees_are_repositories(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Of a bare one there is no checkout to be changed; what only leads to one is named so."""
    head = make_repo(tmp_path / "r", {"a": b"1"})
    git(tmp_path, "clone", "-q", "--bare", "r", "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "w"))
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/.git").write_text("gitdir: ../bare.git\n")
    git(tmp_path, "clone", "-q", "--separate-git-dir", "apart", "r", "checkout")

    bare = await workers.inspect(str(tmp_path / "bare.git/refs"))
    linked = await workers.inspect(str(tmp_path / "w"))
    beside = await workers.inspect(str(tmp_path / "beside"))
    apart = await workers.inspect(str(tmp_path / "apart"))
    checkout = await workers.inspect(str(tmp_path / "checkout"))

    assert (bare.toplevel, bare.common_dir) == (str(tmp_path / "bare.git"),) * 2
    assert (bare.prefix, bare.head, bare.uncommitted, bare.refused) == ("", head, 0, None)
    assert (linked.toplevel, linked.common_dir) == (str(tmp_path / "w"), bare.common_dir)
    assert (linked.head, linked.refused, checkout.refused) == (head, None, None)
    assert beside.refused is not None
    assert f"leads to the bare {bare.common_dir}" in beside.refused
    assert apart.refused is not None
    assert "neither a checkout nor" in apart.refused


async def test_a_forged_pointer_leads_nowhere(workers: GitWorkers, tmp_path: Path) -> None:
    """A .git file that names another worktree's entry is refused, and a pipe is no pointer."""
    repo = tmp_path / "r"
    make_repo(repo, {"a": b"1"})
    git(repo, "worktree", "add", "--detach", str(tmp_path / "w"))
    forged, piped = tmp_path / "forged", tmp_path / "piped"
    forged.mkdir()
    piped.mkdir()
    (forged / ".git").write_bytes((tmp_path / "w/.git").read_bytes())
    os.mkfifo(piped / ".git")

    for folder in (forged, piped):
        with pytest.raises(RepoError) as refused:
            await workers.inspect(str(folder))
        assert refused.value.name == "not_a_repository"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
async def test_a_repository_of_another_user_is_refused(workers: GitWorkers, tmp_path: Path) -> None:
    """Ownership is judged by coachman, since libgit2's own check is off."""
    repo = tmp_path / "r"
    make_repo(repo, {"a": b"1"})
    os.chown(repo / ".git", 12345, 12345)

    with pytest.raises(RepoError, match="belongs to user 12345") as refused:
        await workers.inspect(str(repo))
    assert refused.value.name == "not_owned"


CONFIGURED = [
    (("core.sparseCheckout", "true"), "sparse checkout"),
    (("core.splitIndex", "true"), "split index"),
    (("index.sparse", "true"), "sparse index"),
    (("extensions.partialClone", "origin"), "partial clone"),
    (("remote.origin.promisor", "true"), "partial clone"),
    (("include.path", "../.gitconfig"), "includes another"),
    (("includeIf.onbranch:main.path", "../.gitconfig"), "includes another"),
    (("core.worktree", "/tmp"), "core.worktree"),
]


@pytest.mark.parametrize(("setting", "why"), CONFIGURED, ids=[each[0][0] for each in CONFIGURED])
async def test_a_configuration_that_libgit2_gets_wrong_is_named(
    workers: GitWorkers, tmp_path: Path, setting: tuple[str, str], why: str
) -> None:
    """The reason for a refusal names the setting's meaning."""
    repo = tmp_path / "r"
    make_repo(repo, {"a": b"1"})
    git(repo, "config", "core.repositoryFormatVersion", "1")
    git(repo, "config", *setting)

    found = await workers.inspect(str(repo))

    assert found.refused is not None
    assert why in found.refused


async def test_sha256_is_refused_by_name(workers: GitWorkers, tmp_path: Path) -> None:
    """The other object format is recognized before libgit2 fails on it."""
    git(tmp_path, "init", "-q", "--object-format=sha256", "r")

    found = await workers.inspect(str(tmp_path / "r"))

    assert found.refused == "it uses the sha256 object format"


async def test_reftable_and_sparse_worktrees_are_refused(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Formats are found in the worktree's own configuration file as well."""
    repo, other = tmp_path / "r", tmp_path / "s"
    make_repo(repo, {"a": b"1"})
    make_repo(other, {"a/b": b"1", "c/d": b"2"})
    git(repo, "config", "core.repositoryFormatVersion", "1")
    git(repo, "config", "extensions.refStorage", "reftable")
    git(other, "sparse-checkout", "set", "a")

    assert "reftable" in str((await workers.inspect(str(repo))).refused)
    assert "sparse" in str((await workers.inspect(str(other))).refused)


ATTRIBUTES = {
    ".gitattributes": b"# filter=no\n*.bin filter=lfs diff=lfs merge=lfs -text\n",
    "deep/er/.gitattributes": b"*.txt working-tree-encoding=UTF-16\n",
}


@pytest.mark.parametrize("where", ATTRIBUTES)
async def test_converting_attributes_are_refused_wherever_they_are(
    workers: GitWorkers, tmp_path: Path, where: str
) -> None:
    """A filter or an encoding declared at any level names its file, and no worktree is made."""
    repo = tmp_path / "r"
    head = make_repo(repo, {where: ATTRIBUTES[where], "a": b"1"})

    found = await workers.inspect(str(repo))
    with pytest.raises(RepoError) as refused:
        await workers.create_worktree(found.common_dir, "t", str(tmp_path / "t"), head)

    assert str(found.refused).startswith(f"{where} declares")
    assert refused.value.name == "unsupported_repository"
    assert not (tmp_path / "t").exists()
    assert not (repo / ".git/worktrees").exists()


async def test_info_attributes_count_and_submodules_warn(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """A filter outside of the tree refuses; a submodule is only worth a warning."""
    repo, inner = tmp_path / "r", tmp_path / "inner"
    make_repo(inner, {"x": b"1"})
    make_repo(repo, {"a": b"1"})
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    commit_all(repo)

    warned = await workers.inspect(str(repo))
    (repo / ".git/info/attributes").write_text("* filter=crypt\n")
    refused = await workers.inspect(str(repo))

    assert warned.warnings == ("1 submodule: left empty in task worktrees",)
    assert (warned.refused, warned.uncommitted) == (None, 0)
    assert "info/attributes declares filter=crypt" in str(refused.refused)


async def test_a_revision_resolves_or_says_so(workers: GitWorkers, tmp_path: Path) -> None:
    """Branches, tags and expressions resolve to a commit; a name that is none is an error."""
    repo = tmp_path / "r"
    first = make_repo(repo, {"a": b"1"})
    git(repo, "tag", "-m", "annotated", "v1")
    commit_all(repo)
    common = str(repo / ".git")

    assert await workers.resolve(common, "v1") == first
    assert await workers.resolve(common, "main~1") == first
    assert await workers.resolve(common, first[:9]) == first
    with pytest.raises(RepoError) as unknown:
        await workers.resolve(common, "no-such-branch")
    assert unknown.value.name == "unknown_revision"


async def test_borrowed_objects_are_within_reach(workers: GitWorkers, tmp_path: Path) -> None:
    """A clone that shares another's objects works: the confinement includes its alternates."""
    repo = tmp_path / "r"
    head = make_repo(repo, {"a": b"1"})
    git(tmp_path, "clone", "-q", "--shared", str(repo), "clone")

    found = await workers.inspect(str(tmp_path / "clone"))
    await workers.create_worktree(found.common_dir, "t", str(tmp_path / "t"), head)

    assert (tmp_path / "t/a").read_bytes() == b"1"


def test_names_that_could_become_a_git_directory() -> None:
    """Every spelling that some file system takes for .git is known, and no other."""
    for name in (".git", ".GIT", "git~1", ".git ", ".git.", ".git::$DATA", ".g\u200cit", "a\\.git"):
        assert names.is_git_dir_name(name.encode()), name
    for name in (".gitignore", "git", ".git2", "..git", "x.git", ".\udcffgit"):
        assert not names.is_git_dir_name(name.encode("utf-8", "surrogateescape")), name
