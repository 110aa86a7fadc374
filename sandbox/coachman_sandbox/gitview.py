"""Reading what of a repository an agent may see."""

import os

from .gitconfig import scrub
from .host import read_small
from .policy import GitView, PolicyError


def git_view(common_dir: str, admin_name: str) -> GitView:
    """The view of one worktree, with the repository's configuration scrubbed. Blocking.

    Raises PolicyError where the common directory or the worktree's entry is not there.
    """
    for path in (common_dir, os.path.join(common_dir, "worktrees", admin_name)):
        if not os.path.isdir(path):
            raise PolicyError(f"cannot show the repository: {path} is not a directory")
    config = read_small(os.path.join(common_dir, "config")).decode(errors="replace")
    return GitView(os.path.realpath(common_dir), admin_name, scrub(config))


def check_pointer(workspace: str) -> None:
    """That ``.git`` of a worktree may be covered: bubblewrap would follow a link.

    To be called while no run holds the tree. Raises PolicyError.
    """
    path = os.path.join(workspace, ".git")
    if os.path.islink(path) or not os.path.isfile(path):
        raise PolicyError(f"cannot start: {path} is not a regular file; restore or remove the task")
