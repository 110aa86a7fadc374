"""Workers as processes: confinement, faults, limits and an idle end."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from coachmand.repos import landlock
from coachmand.repos.artifacts import MAX_HASHED_BYTES
from coachmand.repos.errors import RepoError
from coachmand.repos.pool import GitWorkers
from repos_fixtures import git, make_repo, make_sparse, run, write

Eventually = Callable[[Callable[[], object]], Awaitable[object]]


@pytest.fixture
async def workers() -> AsyncIterator[GitWorkers]:
    async with GitWorkers() as running:
        yield running


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A directory whose digest takes seconds: as much as is ever read."""
    folder = tmp_path / "endless"
    folder.mkdir()
    make_sparse(folder / "sparse", MAX_HASHED_BYTES)
    return folder


def worker_pid(workers: GitWorkers, key: str = "") -> int | None:
    worker = workers._workers.get(key)
    return worker.pid if worker else None


def is_gone(pid: int | None) -> bool:
    """Whether a process has ended, be it that nobody reaped it yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def children_of(pid: int | None) -> list[int]:
    """The processes that a worker forked and has not reaped."""
    if pid is None:
        return []
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def caught(workers: GitWorkers, directory: Path, into: list[RepoError]) -> None:
    with pytest.raises(RepoError) as failure:
        await workers.hash_tree(str(directory))
    into.append(failure.value)


async def test_a_child_that_dies_of_a_signal_fails_only_its_operation(
    workers: GitWorkers, endless: Path, tmp_path: Path, eventually_async: Eventually
) -> None:
    """SIGBUS in one child is an error that names it; the worker and its neighbours go on."""
    write(tmp_path, {"out/a": b"1"})
    failures: list[RepoError] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caught, workers, endless, failures)
        await eventually_async(lambda: children_of(worker_pid(workers)))
        pid = worker_pid(workers)
        [child] = children_of(pid)
        beside = await workers.hash_tree(str(tmp_path / "out"))
        os.kill(child, signal.SIGBUS)

    assert failures[0].name == "operation_crashed"
    assert failures[0].message == "cannot hash tree: its process died of SIGBUS"
    assert [each.path for each in beside] == ["a"]
    assert len(await workers.hash_tree(str(tmp_path / "out"))) == 1
    assert worker_pid(workers) == pid


async def test_an_operation_has_a_limit(endless: Path) -> None:
    """What takes too long is killed and says so."""
    async with GitWorkers(limit_s=0.3) as workers:
        with pytest.raises(RepoError, match="it took too long") as failure:
            await workers.hash_tree(str(endless))
        assert failure.value.name == "operation_timed_out"
        assert children_of(worker_pid(workers)) == []


async def test_cancelling_kills_the_operation(
    workers: GitWorkers, endless: Path, eventually_async: Eventually
) -> None:
    """A caller that goes away leaves no process behind."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(workers.hash_tree, str(endless))
        await eventually_async(lambda: children_of(worker_pid(workers)))
        nursery.cancel_scope.cancel()

    await eventually_async(lambda: not children_of(worker_pid(workers)))


async def test_a_worker_that_dies_fails_its_callers_and_is_replaced(
    workers: GitWorkers, endless: Path, tmp_path: Path, eventually_async: Eventually
) -> None:
    """Its children die with it; the next call starts another."""
    write(tmp_path, {"out/a": b"1"})
    failures: list[RepoError] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(caught, workers, endless, failures)
        await eventually_async(lambda: children_of(worker_pid(workers)))
        pid = worker_pid(workers)
        assert pid
        [child] = children_of(pid)
        os.kill(pid, signal.SIGKILL)

    assert failures[0].name == "worker_lost"
    await eventually_async(lambda: is_gone(child))
    assert len(await workers.hash_tree(str(tmp_path / "out"))) == 1
    assert worker_pid(workers) != pid


async def test_an_idle_worker_leaves_and_comes_back(
    tmp_path: Path, eventually_async: Eventually
) -> None:
    """After its idle time the process is gone, and a later call gets an answer all the same."""
    write(tmp_path, {"out/a": b"1"})
    async with GitWorkers(idle_s=0.2) as workers:
        await workers.hash_tree(str(tmp_path / "out"))
        pid = worker_pid(workers)
        await eventually_async(lambda: not workers._workers)
        await eventually_async(lambda: is_gone(pid))
        assert len(await workers.hash_tree(str(tmp_path / "out"))) == 1


async def test_leaving_ends_every_process(tmp_path: Path, eventually_async: Eventually) -> None:
    """One worker per repository, and none after the context."""
    pids = []
    async with GitWorkers() as workers:
        for name in ("one", "two"):
            make_repo(tmp_path / name, {"a": b"1"})
            await workers.inspect(str(tmp_path / name))
            pids.append(worker_pid(workers, str(tmp_path / name / ".git")))
        await workers.delete_tree(str(tmp_path / "nothing"))
        pids.append(worker_pid(workers))
    assert len(set(pids)) == 3
    for pid in pids:
        assert is_gone(pid)


async def failing_body() -> None:
    async with GitWorkers() as workers:
        with pytest.raises(RepoError):
            await workers.resolve("/nonexistent", "HEAD")
        raise LookupError("mine")


async def test_a_body_that_fails_raises_its_own_error() -> None:
    """No exception group hides what went wrong inside the context."""
    with pytest.raises(LookupError, match="mine"):
        await failing_body()


async def test_the_worker_sees_nothing_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PATH and LANG only, the root as its directory, no git configuration from outside."""
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.worktree")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "/elsewhere")
    make_repo(tmp_path / "r", {"a": b"1"})
    seen, python = tmp_path / "seen", tmp_path / "python"
    python.write_text(f'#!/bin/sh\n/usr/bin/env > {seen}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)

    async with GitWorkers(python=str(python)) as workers:
        found = await workers.inspect(str(tmp_path / "r"))

    values = dict(line.split("=", 1) for line in seen.read_text().splitlines())
    # The shell of this test sets two of its own.
    assert values.keys() - {"PWD", "_", "OLDPWD", "SHLVL"} == {"PATH", "LANG"}
    assert values["PWD"] == "/"
    assert found.toplevel == str(tmp_path / "r")


async def test_hooks_and_monitors_of_the_repository_never_run(
    workers: GitWorkers, tmp_path: Path
) -> None:
    """Whatever the repository's configuration names, no operation starts a program."""
    repo, tree, evil = tmp_path / "r", tmp_path / "t", tmp_path / "evil"
    head = make_repo(repo, {"a": b"1"})
    hook = f"#!/bin/sh\ntouch {evil}\n"
    for name in ("post-checkout", "post-commit", "reference-transaction", "post-index-change"):
        write(repo, {f".git/hooks/{name}": hook.encode()})
        (repo / ".git/hooks" / name).chmod(0o755)
    for name in ("core.fsmonitor", "core.sshCommand", "diff.external", "core.editor"):
        git(repo, "config", name, f"touch {evil}")
    common = str(repo / ".git")

    assert (await workers.inspect(str(repo))).refused is None
    admin = await workers.create_worktree(common, "t", str(tree), head)
    write(tree, {"a": b"2"})
    made = await workers.snapshot(
        common, admin, str(tree), ref="refs/coachman/run/x", parents=[head], message="m"
    )
    await workers.diff(common, head, made.commit)
    await workers.remove_worktree(common, admin, str(tree))

    assert not evil.exists()


def test_the_daemon_never_loads_libgit2() -> None:
    """Its side of the workers imports no pygit2."""
    script = "import coachmand.repos.pool, sys; print('pygit2' in sys.modules)"

    assert run(sys.executable, "-c", script, PYTHONPATH=":".join(sys.path)) == "False\n"


CONFINED = """
import os, sys
from coachmand.repos import landlock
from coachmand.repos.artifacts import MAX_HASHED_BYTES
inside, outside = sys.argv[1:3]
held = os.open(outside + "/held", os.O_RDONLY)
landlock.confine([(inside, landlock.{rights}), (outside + "/one", landlock.READ)])
def tried(act):
    try:
        act()
        return "yes"
    except OSError as error:
        return type(error).__name__
print(
    tried(lambda: open(inside + "/a").read()),
    tried(lambda: open(inside + "/b", "w").write("x")),
    tried(lambda: os.rename(inside + "/a", inside + "/d/a")),
    tried(lambda: os.truncate(inside + "/d/a", 0)),
    tried(lambda: open(inside + "/link").read()),
    tried(lambda: open(outside + "/held").read()),
    tried(lambda: open(outside + "/one").read()),
    tried(lambda: os.read(held, 1)),
    tried(lambda: os.rename(inside + "/d", outside + "/d")),
    tried(lambda: os.listdir("/")),
)
"""


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ("WRITE", "yes yes yes yes PermissionError PermissionError yes yes"),
        ("READ", "yes PermissionError PermissionError {} PermissionError PermissionError yes yes"),
    ],
)
def test_a_confined_process_reaches_only_what_it_was_granted(
    tmp_path: Path, rights: str, expected: str
) -> None:
    """Reading, writing, renaming, truncating and links, by the rights of each rule."""
    write(tmp_path, {"in/a": b"1", "in/d/a": b"1", "out/held": b"h", "out/one": b"o"})
    (tmp_path / "in/link").symlink_to("../out/held")
    script = CONFINED.format(rights=rights)
    printed = run(
        sys.executable,
        "-c",
        script,
        tmp_path / "in",
        tmp_path / "out",
        PYTHONPATH=":".join(sys.path),
    )

    truncated = "PermissionError" if landlock.abi() >= 3 else "yes"
    *inner, renamed_out, listed = printed.split()
    assert " ".join(inner) == expected.format(truncated)
    assert renamed_out in ("PermissionError", "OSError")
    assert listed == "PermissionError"


def test_rights_grow_with_the_kernels_abi() -> None:
    """Each version handles what it knows and never a bit more."""
    assert landlock.handled_rights(1) == (1 << 13) - 1
    assert landlock.handled_rights(2) == (1 << 14) - 1
    assert landlock.handled_rights(3) == landlock.handled_rights(4) == (1 << 15) - 1
    assert landlock.handled_rights(5) == landlock.handled_rights(99) == (1 << 16) - 1


def test_without_landlock_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old kernel is refused by name, with what to boot."""
    monkeypatch.setattr(landlock, "abi", lambda: 1)

    with pytest.raises(RepoError, match="ABI 1, 2 is needed") as refused:
        landlock.confine([])
    assert refused.value.name == "confinement_unavailable"
    assert refused.value.hint is not None
