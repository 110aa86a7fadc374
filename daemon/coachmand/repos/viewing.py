"""What of a repository a run sees: a git directory of its own, over packs of its base alone.

It names no remote, no hook and no ref that leads elsewhere, and nothing of it is ever read
back. A person may have staged what no commit holds: that comes along, since the index does.
"""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygit2
from attrs import asdict
from pygit2.enums import ObjectType

from coachmand.repos import beneath, discovery, opening, packing, views
from coachmand.repos.errors import FAILED, RepoError
from coachmand.repos.records import Shown

SHOWN_REFS = ("refs/heads/", "refs/tags/", "refs/remotes/")
# Further ones are not shown; looking at each takes time at every start.
MAX_REFS = 10_000
_NOTE_BYTES = 1 << 20
_NULL_OID = pygit2.Oid(raw=bytes(20))
_QUICKLY = 1


def make_view(*, common: str, views_dir: str, tip: str, git: str, scratch: str) -> str:
    """Keep a view of a commit, unless there is one; see `views.make`. Raises RepoError."""
    repo = opening.open_bare(common)
    sources = discovery.object_directories(common)
    return views.make(repo, sources, Path(views_dir), tip, _shallow(common), git, scratch)


def tidy_views(*, directory: str, unused_s: float) -> None:
    """Remove the views below a directory that were not used for so long."""
    if os.path.isdir(directory):
        views.tidy(Path(directory), unused_s=unused_s)


def show(
    *, common: str, admin_dir: str, base: str, views_dir: str, target: str, config: str
) -> dict[str, Any]:
    """Fill the empty directory ``target`` with what a run sees of a repository; see `Shown`.

    What its HEAD reaches is shown, or ``base`` where it leads to no commit. Nothing is
    done where there is no view of that.
    """
    repo = opening.open_admin(admin_dir, common)
    tip = _head(repo) or base
    shallow = _shallow(common)
    view = views.find(Path(views_dir), tip, views.digest(shallow))
    git_dir = Path(target)
    if view is None:
        return asdict(Shown(tip, None))
    if os.listdir(git_dir):
        raise RepoError(FAILED, f"cannot show the repository: {target} is not empty", "try again")
    packs = packing.git_directory(git_dir, tip, shallow) / "objects" / "pack"
    packs.mkdir()
    if not views.use(view, packs):
        for path in packs.iterdir():
            path.unlink()
        raise RepoError(FAILED, "cannot show the repository: its view has just gone", "try again")
    (git_dir / "config").write_text(config)
    _copy_notes(common, git_dir)
    objects = pygit2.Odb(str(git_dir / "objects"))
    refs = b"".join(_packed_refs(repo, objects))
    (git_dir / "packed-refs").write_bytes(refs)
    staged = _show_index(repo, admin_dir, tip, git_dir, objects)
    return asdict(Shown(tip, len(view.packs), staged))


def _head(repo: Any) -> str | None:
    try:
        return str(repo.head.peel(pygit2.Commit).id)
    except (KeyError, ValueError, pygit2.GitError):
        return None


def _shallow(common: str) -> bytes:
    root = beneath.open_root(beneath.raw(common))
    try:
        return beneath.read_small(root, b"shallow", _NOTE_BYTES) or b""
    finally:
        os.close(root)


def _copy_notes(common: str, git_dir: Path) -> None:
    """The repository's own rules of what is ignored and how files are read."""
    try:
        info = beneath.open_root(beneath.raw(f"{common}/info"))
    except OSError:
        return
    try:
        (git_dir / "info").mkdir()
        for name in ("exclude", "attributes"):
            content = beneath.read_small(info, name.encode(), _NOTE_BYTES)
            if content is not None:
                (git_dir / "info" / name).write_bytes(content)
    finally:
        os.close(info)


def _packed_refs(repo: Any, objects: Any) -> Iterator[bytes]:
    """Branches and tags that lead to what is shown, each as the commit that it leads to."""
    names = (name for name in repo.raw_listall_references() if name.startswith(_SHOWN_PREFIXES))
    for _, name in zip(range(MAX_REFS), sorted(names), strict=False):
        target = _target(repo, name, objects)
        if target is not None:
            yield b"%s %s\n" % (str(target).encode(), name)


_SHOWN_PREFIXES = tuple(prefix.encode() for prefix in SHOWN_REFS)


def _target(repo: Any, name: bytes, objects: Any) -> Any:
    try:
        reference = repo.lookup_reference(name.decode())
        target = reference.resolve().target
        # A tag's own object is none of the base's: it is shown as if it had none.
        if target not in objects and name.startswith(b"refs/tags/"):
            target = reference.peel(pygit2.Commit).id
    except (KeyError, ValueError, pygit2.GitError):
        return None
    return target if target in objects else None


def _show_index(repo: Any, admin_dir: str, tip: str, git_dir: Path, objects: Any) -> int:
    """Copy the worktree's index, and what only it holds; how many objects that were."""
    entry = beneath.open_root(beneath.raw(admin_dir))
    try:
        descriptor = beneath.open_file(entry, b"index")
    except FileNotFoundError:
        return 0
    finally:
        os.close(entry)
    if descriptor is None:
        return 0
    with open(descriptor, "rb") as file, (git_dir / "index").open("wb") as copy:
        while chunk := file.read(beneath.CHUNK_BYTES):
            copy.write(chunk)
    staged = {oid for oid in _staged(repo, tip) if oid not in objects}
    for oid in staged:
        _copy_blob(repo, oid, git_dir / "objects")
    return len(staged)


def _staged(repo: Any, tip: str) -> Iterator[Any]:
    """The ids of what the index holds and the commit does not."""
    index = repo.index
    tree = repo[tip].peel(pygit2.Tree)
    for delta in index.diff_to_tree(tree).deltas:
        yield from (file.id for file in (delta.new_file, delta.old_file) if file.id != _NULL_OID)
    for sides in index.conflicts or ():
        yield from (side.id for side in sides if side is not None)


def _copy_blob(repo: Any, oid: Any, objects: Path) -> None:
    try:
        kind, data = repo.read(oid)
    except (KeyError, pygit2.GitError):
        # A submodule's commit, or what somebody has lost: git says so inside as well.
        return
    if kind != ObjectType.BLOB:
        return
    name = str(oid)
    path = objects / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(b"blob %d\0" % len(data) + data, _QUICKLY))
    path.chmod(0o444)
