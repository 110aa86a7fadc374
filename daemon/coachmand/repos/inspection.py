"""What a person's repository looks like, without touching it."""

import os
from typing import Any

import pygit2
from attrs import asdict

from coachmand.repos import formats, objects, opening
from coachmand.repos.errors import UNKNOWN_REVISION, RepoError
from coachmand.repos.records import Repository


def inspect(common: str, git_dir: str, toplevel: str, prefix: str) -> dict[str, Any]:
    """A `Repository` for a checkout that `discover` found."""
    reason = formats.refused_config(common)
    if reason:
        return asdict(Repository(common, toplevel, prefix, None, None, 0, reason))
    repo = opening.open_admin(git_dir, common)
    if reason := _refused_place(repo, toplevel, is_bare=git_dir == toplevel):
        return asdict(Repository(common, toplevel, prefix, None, None, 0, reason))
    head = None if repo.head_is_unborn else str(repo.head.peel(pygit2.Commit).id)
    branch = None if repo.head_is_unborn or repo.head_is_detached else repo.head.shorthand
    warnings: tuple[str, ...] = ()
    if head:
        items = objects.all_items(repo, objects.tree_of(repo, head))
        reason, warnings = formats.refused_tree(repo, common, items)
    uncommitted = 0 if reason or repo.is_bare else _uncommitted(repo)
    return asdict(Repository(common, toplevel, prefix, head, branch, uncommitted, reason, warnings))


def _refused_place(repo: Any, toplevel: str, *, is_bare: bool) -> str | None:
    """Why a repository is no place to work beside, None where it is one."""
    if repo.is_bare and not is_bare:
        return (
            f"it is no checkout, but leads to the bare {repo.path}: name that, or a worktree of it"
        )
    if is_bare and not repo.is_bare:
        return "it is neither a checkout nor, by its core.bare, a bare repository"
    if not is_bare and "core.worktree" not in repo.config:
        # Its .git led here, wherever that lies; libgit2 takes the folder above that.
        repo.workdir = toplevel
    if is_bare or os.path.realpath(repo.workdir) == toplevel:
        return None
    return f"its core.worktree names {repo.workdir}"


def _uncommitted(repo: Any) -> int:
    return len(repo.status(untracked_files="normal", ignored=False))


def resolve(common: str, revision: str) -> str:
    """The id of the commit that ``revision`` names."""
    repo = opening.open_bare(common)
    try:
        return str(repo.revparse_single(revision).peel(pygit2.Commit).id)
    except (KeyError, ValueError, pygit2.GitError) as error:
        raise RepoError(
            UNKNOWN_REVISION,
            f"cannot resolve {revision}: {error}",
            "name a commit, a branch or a tag of this repository",
        ) from error


def is_reachable(common: str, commit: str, tips: tuple[str, ...], refs: tuple[str, ...]) -> bool:
    """Whether one of ``tips`` (commits) or ``refs`` (some may be missing) leads to ``commit``."""
    repo = opening.open_bare(common)
    found = [repo.references.get(ref) for ref in refs]
    heads = [*tips, *(str(ref.peel(pygit2.Commit).id) for ref in found if ref is not None)]
    wanted = pygit2.Oid(hex=commit)
    return any(
        tip == commit or repo.descendant_of(pygit2.Oid(hex=tip), wanted)
        for tip in dict.fromkeys(heads)
    )
