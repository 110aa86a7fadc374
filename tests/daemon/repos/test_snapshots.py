"""What of an agent's tree becomes a commit, however hostile the tree is."""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import trio
from attrs import frozen

from coachmand.repos import snapshots
from coachmand.repos.errors import RepoError
from coachmand.repos.pool import GitWorkers
from coachmand.repos.records import Snapshot
from repos_fixtures import (
    commit_all,
    fingerprint,
    git,
    listing,
    make_deep,
    make_repo,
    make_sparse,
    run,
    write,
    write_raw,
)

REF = "refs/coachman/run/261129-220417-k7q3x"
SNAPSHOTS = 15


@frozen
class Bench:
    """A repository, a task worktree of it and the worker that stores it."""

    workers: GitWorkers
    repo: Path
    tree: Path
    admin: str
    base: str

    async def snapshot(self, *parents: str, ref: str | None = REF) -> Snapshot:
        return await self.workers.snapshot(
            str(self.repo / ".git"),
            self.admin,
            str(self.tree),
            ref=ref,
            parents=parents or (self.base,),
            message="a turn's end",
        )

    def index(self) -> bytes:
        return Path(self.admin, "index").read_bytes()

    def files(self, made: Snapshot) -> dict[str, tuple[str, bytes]]:
        return listing(self.repo, made.commit)


@pytest.fixture
async def workers() -> AsyncIterator[GitWorkers]:
    async with GitWorkers() as running:
        yield running


async def make_bench(
    workers: GitWorkers,
    where: Path,
    files: dict[str, bytes],
    config: Sequence[tuple[str, str]] = (),
) -> Bench:
    repo, tree = where / "r", where / "t"
    base = make_repo(repo, files, *config)
    admin = await workers.create_worktree(str(repo / ".git"), "task", str(tree), base)
    return Bench(workers, repo, tree, admin, base)


@pytest.fixture
async def bench(workers: GitWorkers, tmp_path: Path) -> Bench:
    files = {"a": b"1\n", "dir/b": b"2\n", "dir/deep/c": b"3\n", ".gitignore": b"*.o\nbuild/\n"}
    return await make_bench(workers, tmp_path, files)


async def test_an_unchanged_tree_is_its_parent(bench: Bench) -> None:
    """No new commit is made, and the ref is set all the same."""
    made = await bench.snapshot()

    assert (made.commit, made.changed, made.warnings) == (bench.base, False, ())
    assert git(bench.repo, "rev-parse", REF) == bench.base


async def test_every_kind_of_change_is_stored_and_nothing_of_the_user_touched(
    bench: Bench,
) -> None:
    """New, changed, deleted, renamed, linked and executable files; HEAD, index, branches stay."""
    before = fingerprint(bench.repo)
    index = bench.index()
    write(bench.tree, {"dir/new": b"n", "a": b"changed\n", "empty": b""})
    (bench.tree / "dir/b").unlink()
    (bench.tree / "dir/deep/c").rename(bench.tree / "dir/deep/C")
    (bench.tree / "link").symlink_to("../../etc/passwd")
    (bench.tree / "empty").chmod(0o755)

    made = await bench.snapshot()

    assert made.changed
    assert bench.files(made) == {
        ".gitignore": ("100644", b"*.o\nbuild/\n"),
        "a": ("100644", b"changed\n"),
        "dir/deep/C": ("100644", b"3\n"),
        "dir/new": ("100644", b"n"),
        "empty": ("100755", b""),
        "link": ("120000", b"../../etc/passwd"),
    }
    assert git(bench.repo, "log", "--format=%P %an %s", "-1", REF) == (
        f"{bench.base} coachman a turn's end"
    )
    assert fingerprint(bench.repo) == before
    assert bench.index() == index
    assert git(bench.repo, "fsck", "--strict", "--no-dangling") == ""


async def test_it_is_the_tree_that_git_add_makes(bench: Bench, tmp_path: Path) -> None:
    """`git add -A` in the same tree comes to the same tree id."""
    write(bench.tree, {f"d{n % 7}/f{n % 3}/x{n}": b"%d" % n for n in range(60)})
    write(bench.tree, {"x.o": b"", "build/y": b"", "dir/build/z": b"", "dir.c": b"", "dir-x": b""})

    made = await bench.snapshot()

    git(bench.tree, "add", "-A")
    assert git(bench.tree, "write-tree") == made.tree


async def test_a_file_becomes_a_folder_and_back(bench: Bench) -> None:
    """Type changes in both directions come out whole."""
    (bench.tree / "a").unlink()
    write(bench.tree, {"a/inner": b"i"})
    for path in ("dir/deep/c", "dir/b"):
        (bench.tree / path).unlink()
    (bench.tree / "dir/deep").rmdir()
    (bench.tree / "dir").rmdir()
    write(bench.tree, {"dir": b"file"})

    made = await bench.snapshot()

    assert set(bench.files(made)) == {".gitignore", "a/inner", "dir"}


async def test_an_emptied_tree_is_the_empty_tree(bench: Bench) -> None:
    """Deleting everything is a change like any other."""
    for path in ("a", "dir", ".gitignore"):
        run("/bin/rm", "-r", bench.tree / path)

    made = await bench.snapshot()

    assert made.tree == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


async def test_ignored_files_are_left_out_and_tracked_ones_stay(bench: Bench) -> None:
    """Ignoring is for what is not tracked, also by rules that the agent wrote itself."""
    write(bench.tree, {"x.o": b"", "build/out": b"", "dir/.gitignore": b"secret*\nb\n"})
    write(bench.tree, {"dir/secret1": b"", "dir/b": b"tracked still", "keep.o/f": b""})

    made = await bench.snapshot()

    assert set(bench.files(made)) == {"a", "dir/b", "dir/deep/c", ".gitignore", "dir/.gitignore"}
    assert bench.files(made)["dir/b"] == ("100644", b"tracked still")
    assert made.left_out == ()


async def test_a_second_snapshot_reads_only_what_changed(bench: Bench) -> None:
    """The chain of snapshots has one commit each, and an edit of equal size is not missed."""
    write(bench.tree, {"a": b"A\n"})
    first = await bench.snapshot()
    write(bench.tree, {"a": b"B\n"})
    os.utime(bench.tree / "a", ns=(1, 1))
    second = await bench.snapshot(first.commit)
    third = await bench.snapshot(second.commit)

    assert bench.files(second)["a"][1] == b"B\n"
    assert (third.commit, third.changed) == (second.commit, False)
    assert git(bench.repo, "rev-list", "--count", f"{bench.base}..{REF}") == "2"


async def test_names_that_are_not_text(bench: Bench) -> None:
    """Bytes in names are kept as they are, in files, folders and links."""
    top = os.fsencode(bench.tree)
    os.mkdir(top + b"/d\xff")
    for name in (b"/d\xff/f\xfe", b"/caf\xe9", b"/line\nbreak", b'/tab\t"q"'):
        write_raw(top + name, name)
    os.symlink(b"\xff\xfe", top + b"/l\xf0")

    files = bench.files(await bench.snapshot())

    assert files["d\udcff/f\udcfe"] == ("100644", b"/d\xff/f\xfe")
    assert files["l\udcf0"] == ("120000", b"\xff\xfe")
    assert {"caf\udce9", "line\nbreak", 'tab\t"q"'} <= set(files)


async def test_pipes_sockets_and_nested_repositories_neither_hang_nor_hide(
    bench: Bench, state_dir: Path
) -> None:
    """What is no file is named; a planted repository's files are stored, its history is not."""
    for name in ("pipe", "dir/.gitignore", "dir/.gitattributes"):
        os.mkfifo(bench.tree / name)
    with socket.socket(socket.AF_UNIX) as listener:
        os.symlink(bench.tree, state_dir / "t")
        listener.bind(str(state_dir / "t/sock"))
    git(bench.tree, "init", "-q", "nested")
    write(bench.tree, {"nested/inner": b"kept", "nested/.git/hooks/post-commit": b"evil"})
    (bench.tree / "a").unlink()
    os.mkfifo(bench.tree / "a")

    made = await bench.snapshot()

    assert bench.files(made)["nested/inner"] == ("100644", b"kept")
    assert not any(".git/" in name for name in bench.files(made))
    assert set(made.left_out) == {"a", "dir/.gitattributes", "dir/.gitignore", "pipe", "sock"}
    assert "nested/.git: not stored, git allows no such name" in made.warnings


async def test_a_filter_that_the_agent_declares_runs_nothing(bench: Bench) -> None:
    """The content is stored as it is, and a warning says so."""
    evil = bench.tree.parent / "evil"
    git(bench.repo, "config", "filter.evil.clean", f"touch {evil}; cat")
    git(bench.repo, "config", "filter.evil.required", "true")
    write(bench.tree, {".gitattributes": b"* filter=evil\n", "a": b"content\n"})

    made = await bench.snapshot()

    assert bench.files(made)["a"] == ("100644", b"content\n")
    assert made.warnings == (".gitattributes declares filter=evil: files are stored as they are",)
    assert not evil.exists()


async def test_line_ends_are_stored_as_git_stores_them(workers: GitWorkers, tmp_path: Path) -> None:
    """With autocrlf and attributes the tree equals `git add`'s, binaries and old ends included."""
    crlf = b"one\r\ntwo\r\n"
    files = {
        "old.txt": crlf,
        "lf.txt": b"one\n",
        "keep.bin": crlf,
        ".gitattributes": b"*.bin -text\n*.id ident\n",
        "x.id": b"$Id$\n",
    }
    bench = await make_bench(workers, tmp_path, files)
    git(bench.repo, "config", "core.autocrlf", "true")
    edits = {
        "old.txt": crlf + b"three\r\n",
        "lf.txt": crlf,
        "new.txt": crlf,
        "null": b"\0" + crlf,
        "keep.bin": crlf + b"\r\n",
        "x.id": b"$Id: abc$\nmore\n",
        "dir/.gitattributes": b"*.txt eol=lf\n",
        "dir/y.txt": crlf,
    }
    write(bench.tree, edits)

    made = await bench.snapshot()

    git(bench.tree, "add", "-A")
    assert git(bench.tree, "write-tree") == made.tree
    assert bench.files(made)["null"][1] == b"\0" + crlf


async def test_modes_and_links_that_a_repository_ignores(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """core.fileMode=false keeps the stored mode, new files are plain."""
    repo, tree = tmp_path / "r", tmp_path / "t"
    make_repo(repo, {"tool": b"#!", "plain": b""}, ("core.fileMode", "false"))
    git(repo, "update-index", "--chmod=+x", "tool")
    git(repo, "commit", "-qm", "program")
    base = git(repo, "rev-parse", "HEAD")
    admin = await workers.create_worktree(str(repo / ".git"), "t", str(tree), base)
    bench = Bench(workers, repo, tree, admin, base)
    write(tree, {"tool": b"#!/bin/sh", "new": b"1"})
    for name in ("tool", "plain", "new"):
        (tree / name).chmod(0o644 if name == "tool" else 0o755)

    files = bench.files(await bench.snapshot())

    assert {name: mode for name, (mode, _) in files.items()} == {
        "tool": "100755",
        "plain": "100644",
        "new": "100644",
    }


async def test_submodules_stay_what_they_were(workers: GitWorkers, tmp_path: Path) -> None:
    """The empty folder of a submodule is no deletion; its removal is one."""
    make_repo(tmp_path / "inner", {"x": b"1"})
    repo, tree = tmp_path / "r", tmp_path / "t"
    make_repo(repo, {"a": b"1"})
    inner = str(tmp_path / "inner")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "sub")
    base = commit_all(repo)
    admin = await workers.create_worktree(str(repo / ".git"), "t", str(tree), base)
    bench = Bench(workers, repo, tree, admin, base)

    assert (await bench.snapshot()).changed is False
    (tree / "sub").rmdir()
    assert "sub" not in bench.files(await bench.snapshot())


async def test_large_files_are_streamed_and_too_large_ones_named(bench: Bench) -> None:
    """A file over the whole-read limit is stored; a sparse giant is left out, not read."""
    large = os.urandom(1 << 20) * 33
    write(bench.tree, {"large": large})
    for name in ("giant", "dir/b"):
        make_sparse(bench.tree / name, snapshots.MAX_FILE_BYTES + 1)

    made = await bench.snapshot()

    files = bench.files(made)
    assert files["large"] == ("100644", large)
    assert files["dir/b"] == ("100644", b"2\n")
    assert "giant" not in files
    assert set(made.left_out) == {"dir/b", "giant"}


async def test_a_very_deep_tree_is_stored_as_far_as_the_limit(bench: Bench) -> None:
    """Folders beyond the limit are named; neither descriptors nor the stack run out."""
    make_deep(bench.tree, "d", 3000, {"bottom": b""})
    make_deep(bench.tree, "e", 200, {"f": b"reached", ".gitignore": b"x", ".gitattributes": b""})

    made = await bench.snapshot()

    assert bench.files(made)["e/" * 200 + "f"] == ("100644", b"reached")
    assert made.left_out == ("/".join("d" * (snapshots.MAX_DEPTH + 1)),)
    await bench.workers.remove_worktree(str(bench.repo / ".git"), bench.admin, str(bench.tree))
    assert not bench.tree.exists()


UNREADABLE = """
import os, sys
from coachmand.repos import opening, snapshots
os.setgroups([]); os.setresgid(12345, 12345, 12345); os.setresuid(12345, 12345, 12345)
opening.isolate_library()
made = snapshots.snapshot(common=sys.argv[1], admin_dir=sys.argv[2], tree_path=sys.argv[3],
    scratch=sys.argv[4], ref=None, parents=(sys.argv[5],), message="m")
print(made["tree"], sorted(made["left_out"]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
async def test_what_cannot_be_read_is_no_deletion(bench: Bench, state_dir: Path) -> None:
    """To an ordinary user a closed file or folder keeps its committed content, and is named."""
    write(bench.tree, {"new": b""})
    scratch = state_dir / "scratch"
    scratch.mkdir()
    for name, mode in (("a", 0), ("new", 0), ("dir/deep", 0)):
        (bench.tree / name).chmod(mode)
    for top in (bench.repo, bench.tree, scratch):
        run("/bin/chown", "-R", "12345", top)
    for above in (bench.tree.parent, *bench.tree.parent.parents[:3], state_dir):
        above.chmod(0o755)

    words = [str(bench.repo / ".git"), bench.admin, str(bench.tree), str(scratch), bench.base]
    printed = run(sys.executable, "-c", UNREADABLE, *words, PYTHONPATH=":".join(sys.path))

    base_tree = git(bench.tree, "-c", "safe.directory=*", "rev-parse", f"{bench.base}^{{tree}}")
    assert printed.split(" ", 1) == [base_tree, "['a', 'dir/deep', 'new']\n"]


async def test_only_coachmans_refs_are_written(bench: Bench) -> None:
    """A branch, or a name that escapes, is refused."""
    for ref in ("refs/heads/main", "refs/coachman/../heads/main", "HEAD"):
        with pytest.raises(RepoError, match="below refs/coachman/ only"):
            await bench.snapshot(ref=ref)


async def test_packed_and_logged_refs_move_too(bench: Bench) -> None:
    """A ref that `git pack-refs` packed, in a repository that logs every ref, is moved."""
    git(bench.repo, "config", "core.logAllRefUpdates", "always")
    await bench.snapshot()
    git(bench.repo, "pack-refs", "--all")
    write(bench.tree, {"a": b"new"})

    made = await bench.snapshot()

    assert git(bench.repo, "rev-parse", REF) == made.commit


async def test_the_trees_own_git_pointer_is_never_read(bench: Bench, tmp_path: Path) -> None:
    """A planted repository in its place neither runs, nor is stored, nor misleads."""
    (bench.tree / ".git").unlink()
    git(bench.tree, "init", "-q")
    git(bench.tree, "config", "core.fsmonitor", f"touch {tmp_path}/evil")
    git(bench.tree, "config", "core.worktree", "/etc")
    write(bench.tree, {".git/info/exclude": b"*\n", "new": b"1"})

    made = await bench.snapshot()

    assert set(bench.files(made)) == {".gitignore", "a", "dir/b", "dir/deep/c", "new"}
    assert not (tmp_path / "evil").exists()


async def test_a_tree_that_was_replaced_is_refused(bench: Bench) -> None:
    """The entry must still name this very tree."""
    elsewhere = bench.tree.with_name("elsewhere")
    bench.tree.rename(elsewhere)

    with pytest.raises(RepoError) as refused:
        await bench.workers.snapshot(
            str(bench.repo / ".git"), bench.admin, str(elsewhere), ref=None, parents=(), message="m"
        )

    assert refused.value.name == "worktree_moved"


SWAP = """
import os, select, sys
os.chdir(sys.argv[1])
print("swapping", flush=True)
while not select.select([0], [], [], 0)[0]:
    os.rename("real", "aside"); os.symlink(sys.argv[2], "real")
    os.unlink("real"); os.rename("aside", "real")
"""


async def test_a_folder_swapped_for_a_link_lets_nothing_in(bench: Bench, tmp_path: Path) -> None:
    """While a folder keeps turning into a link to a secret, no snapshot ever holds the secret."""
    secret = b"the host's key"
    write(tmp_path / "outside", {"key": secret, "sub/key": secret})
    write(bench.tree, {f"real/f{n}": b"inside" for n in range(30)})
    write(bench.tree, {"real/key": b"inside", "real/sub/key": b"inside"})

    for target in (str(tmp_path / "outside"), "../r/.git"):
        seen = await _contents_while_swapping(bench, target)
        assert seen <= {b"inside", target.encode()}, target


async def _contents_while_swapping(bench: Bench, target: str) -> set[bytes]:
    """Every content that snapshots found below or at the swapped name."""
    words = [sys.executable, "-c", SWAP, str(bench.tree), target]
    seen: set[bytes] = set()
    swapping = await trio.lowlevel.open_process(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert swapping.stdin
    assert swapping.stdout
    await swapping.stdout.receive_some()
    for _ in range(SNAPSHOTS):
        made = await bench.snapshot(ref=None)
        for name, (_, content) in bench.files(made).items():
            if name.split("/")[0] in ("real", "aside"):
                seen.add(content)
    assert swapping.poll() is None
    await swapping.stdin.aclose()
    await swapping.stdout.aclose()
    assert await swapping.wait() == 0
    return seen
