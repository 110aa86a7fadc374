"""Reading what of a repository an agent may see; every pointer is checked before it grants."""

import os

from .gitconfig import scrub
from .host import read_small
from .policy import GitView, PolicyError

# Git follows five levels of borrowed object directories, and so do we.
ALTERNATES_DEPTH = 5


def git_view(common_dir: str, admin_name: str) -> GitView:
    """The view of one worktree, with the repository's configuration scrubbed. Blocking.

    Raises PolicyError where a part of the repository is missing or is a link:
    what a link points at was not granted.
    """
    common_dir = os.path.realpath(common_dir)
    for name in ("objects", "refs", f"worktrees/{admin_name}"):
        path = os.path.join(common_dir, name)
        if os.path.islink(path) or not os.path.isdir(path):
            raise PolicyError(f"cannot show the repository: {path} is not a directory of its own")
    config = read_small(os.path.join(common_dir, "config")).decode(errors="replace")
    alternates = _alternates(os.path.join(common_dir, "objects"), ALTERNATES_DEPTH)
    return GitView(common_dir, admin_name, scrub(config), tuple(dict.fromkeys(alternates)))


def _alternates(objects: str, depth: int) -> list[str]:
    """The absolute object directories that this one borrows from, and theirs in turn."""
    listed = read_small(os.path.join(objects, "info", "alternates")) if depth else b""
    found = []
    for line in listed.split(b"\n"):
        path = os.path.normpath(os.fsdecode(line)) if line.startswith(b"/") else ""
        if path and _is_object_directory(path):
            found += [path, *_alternates(path, depth - 1)]
    return found


def _is_object_directory(path: str) -> bool:
    real = os.path.realpath(path)
    return os.path.basename(real) == "objects" and os.path.isdir(os.path.join(real, "pack"))


def check_pointer(workspace: str) -> None:
    """That ``.git`` of a worktree may be covered: bubblewrap would follow a link.

    To be called while no run holds the tree. Raises PolicyError.
    """
    path = os.path.join(workspace, ".git")
    if os.path.islink(path) or not os.path.isfile(path):
        raise PolicyError(f"cannot start: {path} is not a regular file; restore or remove the task")
