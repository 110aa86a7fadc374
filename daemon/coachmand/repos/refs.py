"""coachman's own refs, the only ones it writes."""

from typing import Any

import pygit2

from coachmand.repos.errors import CONFLICT, FAILED, RepoError
from coachmand.repos.serial import serialized

PREFIX = "refs/coachman/"


def check_name(ref: str) -> None:
    """Refuse any ref that is not coachman's. Raises RepoError."""
    if not ref.startswith(PREFIX) or not pygit2.reference_is_valid_name(ref):
        raise RepoError(FAILED, f"cannot write {ref}: coachman writes refs below {PREFIX} only")


def move(repo: Any, common_dir: str, ref: str, commit: str) -> None:
    """Point ``ref`` at ``commit``; a ref that someone else moves meanwhile is a conflict."""
    check_name(ref)
    target = pygit2.Oid(hex=commit)
    try:
        with serialized():
            _set(repo, ref, target)
    except (pygit2.GitError, ValueError) as error:
        raise RepoError(
            CONFLICT, f"cannot move {ref} in {common_dir}: {error}", "try again"
        ) from error


def _set(repo: Any, ref: str, target: Any) -> None:
    if ref not in repo.references:
        repo.references.create(ref, target, force=False)
    elif (found := repo.references[ref]).target != target:
        # libgit2 writes only if the ref still holds what `found` read.
        found.set_target(target)
