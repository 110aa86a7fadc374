"""Trees whose writer turns directories and files into links while the daemon's operations run.

What the links lead to is a host's: it must be in nothing that an operation returns or stores,
and must be as it was afterwards. A contest is one step of an operation, repeated.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field, frozen

from coachmand.repos.errors import WORKER_LOST, RepoError
from coachmand.repos.pool import GitWorkers
from repo_views import GIT
from repos_fixtures import git, git_bytes, make_repo, make_sparse, write

CANARY = b"MARK-of-the-host-7b21"
OWN = b"inside"
FILES = ("AGENTS.md", "stdout.0", "sub/deep/f", *(f"f{n}" for n in range(12)))
Pairs = Sequence[tuple[str, str]]
# Each of ours and the link that it is exchanged with; a link's own content is never exchanged.
IN_A_TREE: Pairs = (("real", "link"), ("real/sub", "real/other"), ("real/f1", "real/away"))
IN_AN_INPUT: Pairs = (("real/sub/deep", "spare"), ("real/f1", "real/away"))
IN_A_STORE: Pairs = (("pack", "away"),)
REF = "refs/coachman/run/261129-220417-k7q3x"
SALVAGED = "refs/coachman/salvage/261129-220417-k7q3x"
TRIES = 200
# What is refused all the time is given so much longer to get through once.
LATEST_S = 60.0
# Until stdin ends, with pauses in which a step may get through: AT_FDCWD and RENAME_EXCHANGE.
# What is not there just now is left, and at the end each is in its own place.
SWAP = """
import ctypes, json, os, random, select, sys
libc, top = ctypes.CDLL(None), sys.argv[1] + "/"
pairs = [tuple(os.fsencode(top + name) for name in pair) for pair in json.loads(sys.argv[2])]
def swap(ours, link):
    libc.renameat2(-100, ours, -100, link, 2)
print("swapping", flush=True)
pause_s = 0
while not select.select([0], [], [], pause_s)[0]:
    for _ in range(random.randrange(1, 2000)):
        for pair in pairs:
            swap(*pair)
    for pair in pairs:
        if os.path.islink(pair[0]):
            swap(*pair)
    pause_s = random.random() / 10
"""


# Likewise: files that are cut to nothing and grow again, while they are read or mapped.
CUT = """
import os, select, sys
files = [os.open(os.path.join(sys.argv[1], name), os.O_RDWR) for name in sys.argv[2:]]
sizes = [os.fstat(file).st_size for file in files]
print("swapping", flush=True)
while not select.select([0], [], [], 0.001)[0]:
    for file in files:
        os.ftruncate(file, 0)
    for file, size in zip(files, sizes):
        os.ftruncate(file, size)
"""
LARGE = {"small": 100_000, "whole": 20 << 20, "streamed": 40 << 20}


def plant(root: Path, outside: Path) -> None:
    """Fill a directory for the swaps: all that is in it is either ours or a link outside."""
    write(root / "real", dict.fromkeys(FILES, OWN))
    (root / "link").symlink_to(outside)
    (root / "spare").symlink_to(outside / "sub/deep")
    (root / "real/other").symlink_to(outside / "sub")
    (root / "real/away").symlink_to(outside / "f1")


@contextmanager
def swapping(root: Path, pairs: Pairs = IN_A_TREE) -> Iterator[None]:
    """While the block runs, somebody swaps below ``root``."""
    with _running(SWAP, str(root), json.dumps(pairs)):
        yield


@contextmanager
def cutting(root: Path) -> Iterator[None]:
    """While the block runs, somebody cuts the files of `LARGE` below ``root``."""
    with _running(CUT, str(root), *LARGE):
        yield


@contextmanager
def _running(script: str, *arguments: str) -> Iterator[None]:
    words = [sys.executable, "-I", "-c", script, *arguments]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"swapping\n"
        try:
            yield
        finally:
            process.communicate()
    assert process.returncode == 0


def facts(root: Path) -> dict[str, tuple[int, bytes]]:
    """What lies below a directory: modes and contents."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in root.rglob("*")
    }


@define
class Race:
    """A tree under attack, the repository that it is a worktree of, and what is the host's.

    ``done`` counts the steps that were carried out, ``refused`` those that failed alone.
    """

    workers: GitWorkers
    root: Path
    base: str = ""
    admin: str = ""
    done: int = 0
    refused: int = 0
    _made: int = field(default=0, init=False)

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def repo(self) -> Path:
        return self.root / "r"

    @property
    def common(self) -> str:
        return str(self.repo / ".git")

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    @property
    def store(self) -> Path:
        return self.repo / ".git/objects"

    async def prepare(self) -> None:
        """Make all of it."""
        write(self.outside, dict.fromkeys(FILES, CANARY))
        self.base = make_repo(self.repo, {"a": b"1\n", "real/f0": b"base\n"})
        make_repo(self.root / "other", {"f0": CANARY})
        for each in (self.repo, self.root / "other"):
            git(each, "gc", "-q")
        (self.store / "away").symlink_to(self.root / "other/.git/objects/pack")
        self.admin = await self.workers.create_worktree(
            self.common, "task", str(self.tree), self.base
        )
        plant(self.tree, self.outside)

    async def run(self, contest: "Contest", lasts_s: float) -> None:
        """Repeat a contest's step until that time is over; what is the host's stays the host's."""
        before, began = facts(self.outside), time.monotonic()

        def is_over() -> bool:
            return time.monotonic() - began > (lasts_s if self.done else lasts_s + LATEST_S)

        while not is_over():
            place = self._fresh(contest)
            with swapping(place, contest.pairs):
                for _ in range(1 if contest.consumes else TRIES):
                    await self._try(contest, place)
                    if is_over():
                        break
            if contest.consumes:
                shutil.rmtree(place, ignore_errors=True)
        assert facts(self.outside) == before
        assert not self.holds(self.repo, CANARY)

    def _fresh(self, contest: "Contest") -> Path:
        if not contest.consumes:
            return self.store if contest.pairs == IN_A_STORE else self.tree
        place = self.empty("place")
        plant(place, self.outside)
        return place

    async def cut(self, contest: "Contest", steps: int) -> None:
        """Carry a contest's step out so often while the files that it reads are cut."""
        for _ in range(steps):
            place = self.empty("cut") if contest.consumes else self.tree
            (place / "real").mkdir(exist_ok=True)
            for name, size in LARGE.items():
                make_sparse(place / "real" / name, size)
            with cutting(place / "real"):
                await self._try(contest, place)

    async def _try(self, contest: "Contest", place: Path) -> None:
        result = self.empty("result")
        try:
            await contest.step(self, place, result)
            self.done += 1
        except RepoError as error:
            if error.name == WORKER_LOST:
                raise
            self.refused += 1
        assert host_files(result) == []
        shutil.rmtree(result)

    def empty(self, kind: str) -> Path:
        """A new directory."""
        self._made += 1
        path = self.root / f"{kind}-{self._made}"
        path.mkdir()
        return path

    def holds(self, repo: Path, content: bytes, **env: str) -> bool:
        """Whether an object store has that blob, be it that no ref leads to it."""
        oid = git_bytes(self.repo, "hash-object", "--stdin", stdin=content)
        shown = git_bytes(repo, "cat-file", "--batch-check", stdin=oid, env=env)
        return b"missing" not in shown


def host_files(root: Path) -> list[str]:
    """The regular files below a directory that have a byte of the host's."""
    paths = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    return [str(p) for p in paths if not p.is_symlink() and CANARY in p.read_bytes()]


Step = Callable[[Race, Path, Path], Awaitable[object]]


async def snapshot(race: Race, place: Path, _: Path) -> str:
    """`git add`: links are stored as links, and nothing behind them."""
    made = await race.workers.snapshot(
        race.common, race.admin, str(place), ref=None, parents=(race.base,), message="m"
    )
    return made.commit


async def diff(race: Race, place: Path, result: Path) -> None:
    """Patch and names of what was added."""
    commit = await snapshot(race, place, result)
    (result / "patch").write_bytes(await race.workers.diff(race.common, race.base, commit))
    await race.workers.diff_names(race.common, race.base, commit)


async def salvage(race: Race, place: Path, _: Path) -> None:
    """Before a tree goes: a commit of all that is in it, or a refusal."""
    await race.workers.salvage(
        race.common,
        str(place),
        run_refs=[REF],
        base=race.base,
        ref=SALVAGED,
        message="m",
        declared=("f*",),
        write=True,
    )


async def hashes(race: Race, place: Path, _: Path) -> None:
    """Digests of a tree, and of the files that instruct agents."""
    found = await race.workers.hash_tree(str(place))
    found += await race.workers.hash_instructions(str(place), "real")
    assert hashlib.sha256(CANARY).hexdigest() not in {each.sha256 for each in found}


async def archive(race: Race, place: Path, result: Path) -> None:
    """Files are taken out of /output."""
    await race.workers.archive(str(place), str(result))


async def delete(race: Race, place: Path, _: Path) -> None:
    """A tree goes, at the latest with the next try."""
    await race.workers.delete_tree(str(place))


async def trim(race: Race, place: Path, _: Path) -> None:
    """Logs go, and what there is is measured."""
    await race.workers.measure(str(place))
    await race.workers.trim(str(place), ("stdout.*",))


async def input_folder(race: Race, place: Path, result: Path) -> None:
    """A caller's directory that is a link every other moment."""
    source = {"path": str(place / "real/sub"), "name": "it"}
    await race.workers.copy_inputs([source], str(result))


async def input_file(race: Race, place: Path, result: Path) -> None:
    """A caller's file of that kind."""
    source = {"path": str(place / "real/f1"), "name": "it"}
    await race.workers.copy_inputs([source], str(result))


async def copies(race: Race, place: Path, result: Path) -> None:
    """`[repo] copy` out of a checkout that somebody else writes."""
    await race.workers.copy_files(str(place), ["real"], str(result))


async def view(race: Race, _: Path, result: Path) -> None:
    """Packing what a base reaches out of an object store that becomes another's."""
    await race.workers.make_view(race.common, str(result), race.base, GIT)
    packs = str(result / race.base)
    assert not race.holds(race.repo, CANARY, GIT_OBJECT_DIRECTORY=packs)


@frozen
class Contest:
    """An operation against swaps; ``consumes``: each step is to have a place of its own."""

    step: Step
    consumes: bool = False
    pairs: Pairs = IN_A_TREE


CONTESTS: Mapping[str, Contest] = {
    "add": Contest(snapshot),
    "diff": Contest(diff),
    "salvage": Contest(salvage),
    "hash": Contest(hashes),
    "artifact": Contest(archive, consumes=True),
    "delete": Contest(delete, consumes=True),
    "trim": Contest(trim, consumes=True),
    # What lies above an input is the caller's word, links included.
    "input folder": Contest(input_folder, pairs=IN_AN_INPUT),
    "input file": Contest(input_file, pairs=IN_AN_INPUT),
    "copy": Contest(copies),
    "view": Contest(view, pairs=IN_A_STORE),
}


def naive(tree: Path, lasts_s: float) -> bool:
    """Whether one who walks and opens by path meets the host's within that time."""
    ends = time.monotonic() + lasts_s
    while time.monotonic() < ends:
        for folder, _, names in os.walk(tree):
            for name in names:
                try:
                    descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW)
                except OSError:
                    continue
                with open(descriptor, "rb") as file:
                    if CANARY in file.read():
                        return True
    return False
