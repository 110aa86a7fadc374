"""Views that are kept: for each base a pack of what it reaches, and of nothing else.

`views/<base>` holds packs and `view.json`, which says whose they are. One is built aside and
renamed into place, so that it is whole or absent. It begins with links to the packs of the
nearest earlier base that there is a view of: only what came since is packed anew. Whoever
uses one links the packs again, so that one may go at any time.
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pygit2
from attrs import asdict, frozen
from pygit2.enums import SortMode

from coachmand.failpoints import reach
from coachmand.repos import landlock, packing
from coachmand.repos.errors import FAILED, RepoError

FORMAT = 1
ABOUT = "view.json"
_BUILDING, _GOING = ".new-", ".old-"
_LEFT_S = 60.0

# Beyond these the least recently used go; the newest always stays.
MAX_VIEWS = 64
MAX_BYTES = 4 << 30
# So many packs git searches without being slow; then those since the first are made one.
MAX_PACKS = 12
# A base whose nearest view is further away is packed whole, which costs no more.
_MAX_COMMITS_BETWEEN = 10_000


@frozen
class Pack:
    """One pack: all that ``tip`` reaches and the packs before it do not hold."""

    name: str
    tip: str
    bytes: int


@frozen
class View:
    """The packs of one base. ``shallow``: at which commits its history ends, as git notes it."""

    path: Path
    shallow: str
    packs: tuple[Pack, ...]

    @property
    def tip(self) -> str:
        return self.path.name

    def files(self) -> Iterator[Path]:
        """The packs' files; one may be gone by the time it is looked at."""
        for pack in self.packs:
            yield from (self.path / "pack" / f"{pack.name}{end}" for end in (".pack", ".idx"))


def find(views: Path, tip: str, shallow: str) -> View | None:
    """The view of ``tip`` if it is there and whole."""
    try:
        document = json.loads((views / tip / ABOUT).read_bytes())
        if document["format"] != FORMAT or document["shallow"] != shallow:
            return None
        view = View(views / tip, shallow, tuple(Pack(**pack) for pack in document["packs"]))
        sizes = [path.stat().st_size for path in view.files()]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return view if sizes[::2] == [pack.bytes for pack in view.packs] and all(sizes) else None


def use(view: View, folder: Path) -> bool:
    """Link its packs into ``folder``; False where it went meanwhile."""
    try:
        os.utime(view.path / ABOUT)
        for path in view.files():
            _link(path, folder / path.name)
    except FileNotFoundError:
        return False
    return True


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        # Another file system, or one without links.
        shutil.copyfile(source, target)


def make(
    repo: Any, sources: Sequence[str], views: Path, tip: str, shallow: bytes, git: str, scratch: str
) -> str:
    """Make the view of ``tip`` unless it is there. Raises RepoError.

    ``sources`` are the object directories of ``repo``. Returns what was packed: "nothing",
    "increment" or "whole".
    """
    if find(views, tip, digest(shallow)):
        return "nothing"
    building = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=views))
    lock = _held(building)
    try:
        (building / "pack").mkdir()
        before = _linked(_before(repo, views, tip, digest(shallow)), building)
        reach("view.linked")
        git_dir = packing.git_directory(Path(scratch, "git"), tip, shallow)
        known = before[-1].tip if before else None
        # From here on nothing of the repository is needed but objects, and git gets no more.
        landlock.confine(packing.grants(git, sources, str(views), scratch))
        pack = packing.pack(git, git_dir, building, sources, tip, known)
        reach("view.packed")
        size = (building / "pack" / f"{pack}.pack").stat().st_size
        _write_about(building, digest(shallow), (*before, Pack(pack, tip, size)))
        reach("view.written")
        _place(building, views / tip)
        reach("view.placed")
    finally:
        os.close(lock)
        shutil.rmtree(building, ignore_errors=True)
    tidy(views, tip)
    return "increment" if before else "whole"


def digest(shallow: bytes) -> str:
    """What identifies where history ends; "" where all of it is there."""
    return " ".join(sorted(shallow.decode("ascii", "replace").split()))


def _before(repo: Any, views: Path, tip: str, shallow: str) -> View | None:
    """The view of the nearest commit that ``tip`` comes from."""
    known = {name for name in os.listdir(views) if not name.startswith(".")}
    if not known:
        return None
    walk = repo.walk(pygit2.Oid(hex=tip), SortMode.TIME)
    try:
        for _, commit in zip(range(_MAX_COMMITS_BETWEEN), walk, strict=False):
            if str(commit.id) in known and (view := find(views, str(commit.id), shallow)):
                return view
    except (KeyError, pygit2.GitError):
        # History ends where a shallow clone's does.
        return None
    return None


def _linked(view: View | None, building: Path) -> tuple[Pack, ...]:
    """Begin with the packs of another view; which ones."""
    if view is None:
        return ()
    packs = _kept(view.packs)
    if not packs or not use(View(view.path, view.shallow, packs), building / "pack"):
        shutil.rmtree(building / "pack")
        (building / "pack").mkdir()
        return ()
    return packs


def _kept(packs: tuple[Pack, ...]) -> tuple[Pack, ...]:
    """All of a chain; of a long one only its beginning, or nothing once the rest outweighs it."""
    if len(packs) < MAX_PACKS:
        return packs
    first, *others = packs
    return (first,) if sum(pack.bytes for pack in others) < first.bytes else ()


def _write_about(building: Path, shallow: str, packs: tuple[Pack, ...]) -> None:
    document = {"format": FORMAT, "shallow": shallow, "packs": [asdict(pack) for pack in packs]}
    with (building / ABOUT).open("w") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    # git has synced the packs themselves.
    _sync(building / "pack")
    _sync(building)


def _place(building: Path, target: Path) -> None:
    for _ in range(3):
        try:
            building.rename(target)
        except OSError:
            # Made by another meanwhile, or one that is broken or of another history.
            _set_aside(target)
        else:
            _sync(target.parent)
            return
    raise RepoError(FAILED, f"cannot keep {target}: others make it at the same time", "try again")


def _set_aside(view: Path) -> Path:
    going = view.with_name(f"{_GOING}{view.name}-{time.monotonic_ns()}")
    with suppress(FileNotFoundError):
        view.rename(going)
    return going


def tidy(views: Path, keep: str | None = None, unused_s: float | None = None) -> None:
    """Remove what a killed process left, and the least recently used views beyond the bounds.

    ``keep`` counts as the newest. With ``unused_s``, those go as well that were not used for so
    long, and the folder itself once it is empty.
    """
    found: list[tuple[float, Path]] = []
    for path in views.iterdir():
        if path.name.startswith(_GOING) or (path.name.startswith(_BUILDING) and _is_left(path)):
            shutil.rmtree(path, ignore_errors=True)
        elif not path.name.startswith("."):
            found.append((_used_s(path), path))
    found.sort(key=lambda each: (each[1].name == keep, each[0]), reverse=True)
    seen: set[int] = set()
    size = 0
    for number, (used_s, path) in enumerate(found):
        size += _bytes(path, seen)
        is_old = unused_s is not None and used_s < time.time() - unused_s
        if is_old or (number and (number >= MAX_VIEWS or size > MAX_BYTES)):
            # Under another name first: half a view is never found.
            shutil.rmtree(_set_aside(path), ignore_errors=True)
    if unused_s is not None:
        with suppress(OSError):
            views.rmdir()


def _used_s(view: Path) -> float:
    try:
        return (view / ABOUT).stat().st_mtime
    except OSError:
        return 0.0


def _bytes(view: Path, seen: set[int]) -> int:
    """What it takes beyond the files that were ``seen``: views share packs."""
    size = 0
    with suppress(OSError), os.scandir(view / "pack") as files:
        for status in (file.stat() for file in files):
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                size += status.st_size
    return size


def _held(building: Path) -> int:
    """A lock that says that its maker lives."""
    descriptor = os.open(building, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _is_left(building: Path) -> bool:
    try:
        descriptor = os.open(building, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A maker takes the lock right after it made the directory, but not in one step.
        return os.fstat(descriptor).st_mtime < time.time() - _LEFT_S
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
