"""Digests and deletion of directories that an agent wrote."""

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coachmand.repos.pool import GitWorkers
from coachmand.repos.records import Artifact
from repos_fixtures import make_deep, write, write_raw


@pytest.fixture
async def workers() -> AsyncIterator[GitWorkers]:
    async with GitWorkers() as running:
        yield running


async def test_regular_files_are_listed_with_their_digests(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Sizes and digests in order of path; links and pipes are passed over, odd names kept."""
    out = tmp_path / "out"
    write(tmp_path, {"secret": b"s", "out/b/two": b"22", "out/a": b""})
    (out / "link").symlink_to(tmp_path / "secret")
    (out / "folder").symlink_to(tmp_path)
    os.mkfifo(out / "pipe")
    write_raw(os.fsencode(out) + b"/\xff", b"x")

    found = await workers.hash_tree(str(out))

    def digest(content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()

    assert found == (
        Artifact("a", 0, digest(b"")),
        Artifact("b/two", 2, digest(b"22")),
        Artifact("\udcff", 1, digest(b"x")),
    )


async def test_deletion_follows_no_link_and_knows_no_depth(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Deeper than any path may be, closed to its owner, with links outward: all goes, no more."""
    tree = tmp_path / "tree"
    write(tmp_path, {"outside/kept": b"k", "tree/wide/.coachman-delete-0": b"", "tree/x/y/z": b""})
    (tree / "link").symlink_to(tmp_path / "outside")
    (tree / "x/y/link").symlink_to(tmp_path / "outside")
    os.mkfifo(tree / "x/y/pipe")
    make_deep(tree, "deeper", 5000, {"bottom": b""})
    (tree / "x/y").chmod(0)
    (tree / "x").chmod(0o500)

    await workers.delete_tree(str(tree))
    await workers.delete_tree(str(tree))

    assert not tree.exists()
    assert (tmp_path / "outside/kept").read_bytes() == b"k"


async def test_a_link_is_not_a_tree(workers: GitWorkers, tmp_path: Path) -> None:
    """Deleting a link's name touches neither the link nor what it leads to."""
    write(tmp_path, {"real/kept": b"k"})
    (tmp_path / "link").symlink_to("real")

    await workers.delete_tree(str(tmp_path / "link"))

    assert (tmp_path / "link/kept").read_bytes() == b"k"
