"""A patch carries every difference, to the byte, into the user's own checkout."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coachmand.repos import opening, patches
from coachmand.repos.objects import EMPTY_TREE
from coachmand.repos.pool import GitWorkers
from coachmand.repos.records import FileChange
from repos_fixtures import commit_all, git, git_bytes, make_repo, write, write_raw

NAMES = (b"a", b"b.txt", b"A", b"c d", b" e ", b"caf\xc3\xa9", b"\xff\xfe", b'q"uote', b"b\\s")
ODD_NAMES = (b"tab\there", b"line\nbreak", b"-dash", b"a=>b", b"{x}", b"dev", b"null", b"\x7f\x01")
NAME_BYTES = st.sampled_from([*NAMES, *ODD_NAMES])
PATHS = st.lists(NAME_BYTES, min_size=1, max_size=3).map(b"/".join)
TEXTS = st.lists(
    st.sampled_from([b"one", b"two", b"", b"\xff", b"-- ", b"+++ b/x", b"\r", b"@@ -1 +1 @@"]),
    max_size=12,
).flatmap(lambda lines: st.sampled_from([b"\n".join(lines), b"\n".join([*lines, b""])]))
CONTENTS = st.one_of(
    TEXTS,
    st.binary(max_size=300),
    st.just(b""),
    st.builds(lambda part, n: (part + b"\0") * n, st.binary(max_size=9), st.integers(1, 900)),
)
BLOBS = st.tuples(st.sampled_from(["100644", "100755", "120000"]), CONTENTS).filter(
    lambda blob: blob[0] != "120000" or (blob[1] != b"" and b"\0" not in blob[1])
)
TREES = st.dictionaries(PATHS, BLOBS, max_size=6)


@pytest.fixture
async def workers() -> AsyncIterator[GitWorkers]:
    async with GitWorkers() as running:
        yield running


@pytest.fixture(scope="module")
def scratch_repo() -> Iterator[Path]:
    """One repository for all generated trees: they share nothing but its objects."""
    where = Path(mkdtemp(prefix="coachman-test-"))
    make_repo(where / "r", {"a": b"1"})
    opening.isolate_library()
    yield where / "r"
    shutil.rmtree(where)


def without_conflicts(files: dict[bytes, tuple[str, bytes]]) -> dict[bytes, tuple[str, bytes]]:
    """Only the paths that are not below another path, as in any real tree."""
    return {
        path: blob
        for path, blob in files.items()
        if not any(path != other and path.startswith(other + b"/") for other in files)
    }


def store_tree(repo: Path, files: dict[bytes, tuple[str, bytes]]) -> str:
    """The tree of these files, made by git's own index."""
    git(repo, "read-tree", "--empty")
    entries = b""
    for path, (mode, content) in without_conflicts(files).items():
        blob = git_bytes(repo, "hash-object", "-w", "--stdin", "--no-filters", stdin=content)
        entries += b"%s %s\t%s\0" % (mode.encode(), blob.strip(), path)
    git_bytes(repo, "update-index", "-z", "--index-info", stdin=entries)
    return git(repo, "write-tree")


def applied(repo: Path, old: str, patch: bytes) -> str:
    """The tree that `git apply --index` makes of ``old`` in a real checkout."""
    git(repo, "read-tree", "--reset", "-u", old)
    git(repo, "clean", "-qffdx")
    if patch:
        git_bytes(repo, "apply", "--index", "--whitespace=nowarn", "-", stdin=patch)
    return git(repo, "write-tree")


@settings(max_examples=60)
@given(before=TREES, after=TREES, shared=TREES)
def test_any_two_trees_round_trip(
    scratch_repo: Path,
    before: dict[bytes, tuple[str, bytes]],
    after: dict[bytes, tuple[str, bytes]],
    shared: dict[bytes, tuple[str, bytes]],
) -> None:
    """Applying the patch to the old tree gives the very id of the new one."""
    old = store_tree(scratch_repo, {**before, **shared})
    new = store_tree(scratch_repo, {**shared, **after})
    patch = patches.patch(str(scratch_repo / ".git"), old, new)

    assert applied(scratch_repo, old, patch) == new


async def test_every_kind_of_change_has_its_letter(workers: GitWorkers, tmp_path: Path) -> None:
    """Names, counts and totals of an addition, deletion, edit, mode, binary and type change."""
    repo = tmp_path / "r"
    old = make_repo(repo, {"edit": b"1\n2\n3\n", "gone": b"x\n", "mode": b"", "kind": b"k\n"})
    write(repo, {"edit": b"1\n2\nthree\nfour\n", "bin": b"\0\1\2", "new": b"n"})
    (repo / "gone").unlink()
    (repo / "mode").chmod(0o755)
    (repo / "kind").unlink()
    (repo / "kind").symlink_to("edit")
    write_raw(os.fsencode(repo) + b"/\xff")
    new = commit_all(repo)
    common = str(repo / ".git")

    names = {change.path: change for change in await workers.diff_names(common, old, new)}

    assert {path: change.status for path, change in names.items()} == {
        "bin": "A",
        "edit": "M",
        "gone": "D",
        "kind": "T",
        "mode": "M",
        "new": "A",
        "\udcff": "A",
    }
    assert names["edit"] == FileChange("edit", "M", 2, 1, False)
    assert names["bin"].binary
    patch = await workers.diff(common, old, new)
    assert applied(repo, old, patch) == git(repo, "rev-parse", f"{new}^{{tree}}")


async def test_renames_are_shown_as_what_they_are_made_of(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Also one that only changes case; nothing differs between equal trees."""
    repo = tmp_path / "r"
    old = make_repo(repo, {"name": b"content\n" * 9})
    (repo / "name").rename(repo / "Name")
    new = commit_all(repo)
    common = str(repo / ".git")

    changes = await workers.diff_names(common, old, new)

    assert {(each.path, each.status) for each in changes} == {("name", "D"), ("Name", "A")}
    assert await workers.diff(common, new, new) == b""
    assert await workers.diff_names(common, new, new) == ()
    assert [each.status for each in await workers.diff_names(common, EMPTY_TREE, new)] == ["A"]


async def test_attributes_and_drivers_of_the_checkout_play_no_part(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Neither an external diff nor a textconv of the user's repository runs or shows."""
    repo = tmp_path / "r"
    old = make_repo(repo, {"a": b"1\n", ".gitattributes": b"* diff=evil\n"})
    git(repo, "config", "diff.evil.command", f"touch {tmp_path}/evil")
    git(repo, "config", "diff.evil.textconv", f"touch {tmp_path}/evil; cat")
    git(repo, "config", "diff.external", f"touch {tmp_path}/evil")
    write(repo, {"a": b"2\n"})
    new = commit_all(repo)

    patch = await workers.diff(str(repo / ".git"), old, new)

    assert b"-1\n+2\n" in patch
    assert not (tmp_path / "evil").exists()
