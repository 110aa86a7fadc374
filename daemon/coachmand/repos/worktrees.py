"""Task worktrees: git's own entry, written by hand, then a checkout."""

import os
from pathlib import Path
from typing import Any

import pygit2

from coachmand.repos import beneath, checkouts, formats, objects, opening
from coachmand.repos.deletion import delete_tree
from coachmand.repos.errors import EXISTS, FAILED, UNKNOWN_REVISION, WORKTREE_MOVED, RepoError
from coachmand.repos.serial import serialized
from coachmand.repos.snapshots import CACHE_NAME, check_entry

LOCK_REASON = "a task of coachman works here\n"
_BUILDING = "coachman-entry-"
_MAX_NAMES = 1000


def create_entry(*, common: str, name: str, tree_path: str, commit: str) -> str:
    """Make an empty worktree at ``tree_path``, detached at ``commit``; return its entry.

    The tree must not exist yet, or be empty; its parent must exist. The entry
    is complete and locked before git can see it: `git worktree prune`, which
    may run at any moment, deletes entries that it finds unlocked and without
    a tree. Raises RepoError.
    """
    if "/" in name or name.startswith("."):
        raise RepoError(FAILED, f"cannot add a worktree {name!r}: that is no name of an entry")
    _make_empty(tree_path)
    building = Path(common, f"{_BUILDING}{os.getpid()}")
    delete_tree(str(building))
    building.mkdir()
    (building / "locked").write_text(LOCK_REASON)
    (building / "gitdir").write_bytes(beneath.raw(f"{tree_path}/.git") + b"\n")
    (building / "commondir").write_text("../..\n")
    (building / "HEAD").write_text(f"{commit}\n")
    try:
        with serialized():
            admin_dir = _place_entry(building, Path(common, "worktrees"), name, tree_path)
    finally:
        delete_tree(str(building))
    Path(tree_path, ".git").write_bytes(b"gitdir: " + beneath.raw(admin_dir) + b"\n")
    return admin_dir


def check_out(*, common: str, admin_dir: str, tree_path: str, commit: str) -> None:
    """Fill a worktree that `create_entry` made. Raises RepoError for what would come out wrong."""
    check_entry(admin_dir, tree_path)
    repo = opening.open_admin(admin_dir, common)
    tree = _tree(repo, commit)
    items = objects.all_items(repo, tree)
    reason, _ = formats.refused_tree(repo, common, items)
    if reason:
        raise formats.unsupported(common, reason)
    cache = checkouts.fill(
        repo, tree, items, common=common, admin_dir=admin_dir, tree_path=tree_path
    )
    cache.save(Path(admin_dir, CACHE_NAME))


def remove_entry(*, common: str, admin_dir: str, tree_path: str) -> None:
    """Delete the entry of a worktree whose tree is gone; nothing happens without an entry."""
    if Path(admin_dir).parent != Path(common, "worktrees"):
        raise _foreign(admin_dir, f"it is no worktree entry of {common}")
    named = _named_tree(Path(admin_dir))
    if named is not None and named != beneath.raw(f"{tree_path}/.git"):
        raise _foreign(admin_dir, f"it belongs to {beneath.text(named)}")
    if os.path.lexists(tree_path):
        raise _foreign(admin_dir, f"its tree {tree_path} is still there")
    with serialized():
        delete_tree(admin_dir)
        _remove_if_empty(Path(common, "worktrees"))


def _foreign(admin_dir: str, why: str) -> RepoError:
    return RepoError(WORKTREE_MOVED, f"cannot remove {admin_dir}: {why}")


def _tree(repo: Any, commit: str) -> bytes:
    try:
        tree: bytes = repo[commit].peel(pygit2.Commit).tree_id.raw
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise RepoError(
            UNKNOWN_REVISION, f"cannot check out {commit}: there is no such commit"
        ) from error
    return tree


def _make_empty(tree_path: str) -> None:
    try:
        os.mkdir(tree_path, 0o700)
    except FileExistsError:
        if os.path.islink(tree_path) or not os.path.isdir(tree_path) or os.listdir(tree_path):
            raise RepoError(
                EXISTS,
                f"cannot check out at {tree_path}: something is there",
                "remove that worktree first; its files may be somebody's work",
            ) from None


def _place_entry(building: Path, entries: Path, name: str, tree_path: str) -> str:
    for number in range(_MAX_NAMES):
        target = entries / (f"{name}{number}" if number else name)
        if _named_tree(target) == beneath.raw(f"{tree_path}/.git"):
            # Left by a creation that was interrupted: the tree, just now empty, was its only user.
            delete_tree(str(target))
        elif target.exists():
            continue
        # git removes the directory together with its last entry.
        entries.mkdir(exist_ok=True)
        building.rename(target)
        return str(target)
    raise RepoError(EXISTS, f"cannot add a worktree {name}: {_MAX_NAMES} have that name")


def _named_tree(admin_dir: Path) -> bytes | None:
    try:
        return (admin_dir / "gitdir").read_bytes().rstrip(b"\n")
    except OSError:
        return None


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
