"""What must be so of a repository before an agent may see a part of it."""

import os

from .gitconfig import scrub
from .host import read_small
from .policy import PolicyError


def shown_config(common_dir: str) -> str:
    """The repository's configuration as an agent may see it. Blocking."""
    config = read_small(os.path.join(common_dir, "config"))
    return scrub(config.decode(errors="replace"))


def check_pointer(workspace: str) -> None:
    """That ``.git`` of a worktree may be covered: bubblewrap would follow a link.

    To be called while no run holds the tree. Raises PolicyError.
    """
    path = os.path.join(workspace, ".git")
    if os.path.islink(path) or not os.path.isfile(path):
        raise PolicyError(f"cannot start: {path} is not a regular file; restore or remove the task")
