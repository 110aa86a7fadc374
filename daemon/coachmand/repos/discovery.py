"""Find the repository that a directory belongs to, by reading a few small files."""

import os
import stat
from pathlib import Path

from attrs import frozen

from coachmand.repos.beneath import raw
from coachmand.repos.errors import NOT_A_REPOSITORY, NOT_OWNED, UNSUPPORTED, RepoError

_POINTER_BYTES = 8192
_MAX_ALTERNATES = 32


@frozen
class Found:
    """Where a repository lies. ``git_dir`` is the checkout's own, ``common_dir`` the shared.

    Of a bare one all three are the same.
    """

    toplevel: str
    git_dir: str
    common_dir: str
    prefix: str


def discover(path: str) -> Found:
    """The repository around the directory ``path``. Raises RepoError."""
    start = os.path.realpath(path)
    if not os.path.isdir(start):
        raise RepoError(NOT_A_REPOSITORY, f"cannot use {path}: it is not a directory")
    for folder in (Path(start), *Path(start).parents):
        if _is_git_dir(str(folder)):
            return _found_bare(folder)
        if os.path.lexists(folder / ".git"):
            return _found(folder, start)
    raise RepoError(
        NOT_A_REPOSITORY,
        f"cannot use {path}: neither it nor a directory above it is a git repository",
        "run `git init` there, name another with -C, or use --profile sealed",
    )


def _found_bare(folder: Path) -> Found:
    """A repository without a checkout; libgit2 says whether it is one, and not a checkout's own."""
    path = str(folder)
    if folder.name == ".git" or common_dir_of(path) != path:
        raise RepoError(
            UNSUPPORTED,
            f"cannot use {folder}: it is the git directory of a checkout",
            "name the checkout",
        )
    _check_owner(path)
    return Found(path, path, path, "")


def _found(toplevel: Path, start: str) -> Found:
    pointer = toplevel / ".git"
    git_dir = os.path.realpath(_pointed_at(pointer) if pointer.is_file() else str(pointer))
    if not _is_git_dir(git_dir):
        raise RepoError(
            NOT_A_REPOSITORY,
            f"cannot use {toplevel}: its .git leads to {git_dir}, which is no git directory",
            "repair it with `git worktree repair`, or remove the stale .git file",
        )
    common = common_dir_of(git_dir)
    if common != git_dir and read_line(f"{git_dir}/gitdir") != str(pointer):
        raise RepoError(
            NOT_A_REPOSITORY,
            f"cannot use {toplevel}: {git_dir} belongs to another worktree",
            "repair it with `git worktree repair`",
        )
    for owned in (str(toplevel), git_dir, common):
        _check_owner(owned)
    prefix = os.path.relpath(start, toplevel)
    return Found(str(toplevel), git_dir, common, "" if prefix == "." else prefix)


def _pointed_at(pointer: Path) -> str:
    line = read_line(str(pointer)) or ""
    target = line.removeprefix("gitdir:").strip()
    if not line.startswith("gitdir:") or not target:
        raise RepoError(
            NOT_A_REPOSITORY, f"cannot use {pointer.parent}: its .git file names no directory"
        )
    return os.path.join(pointer.parent, target)


def _is_git_dir(path: str) -> bool:
    if not os.path.lexists(f"{path}/HEAD"):
        return False
    common = common_dir_of(path)
    return os.path.isdir(f"{common}/objects") and os.path.isdir(f"{common}/refs")


def common_dir_of(git_dir: str) -> str:
    """The directory that all worktrees of a git directory share."""
    shared = read_line(f"{git_dir}/commondir")
    return os.path.realpath(os.path.join(git_dir, shared)) if shared else git_dir


def _check_owner(path: str) -> None:
    owner = os.stat(path).st_uid
    if owner != os.geteuid():
        raise RepoError(
            NOT_OWNED,
            f"cannot use {path}: it belongs to user {owner}, not to you",
            "change its owner, or clone it",
        )


def object_directories(common_dir: str) -> tuple[str, ...]:
    """The repository's object directory and all that it borrows from."""
    found: list[str] = []
    pending = [os.path.realpath(f"{common_dir}/objects")]
    while pending and len(found) < _MAX_ALTERNATES:
        objects = pending.pop()
        if objects in found or not os.path.isdir(objects):
            continue
        found.append(objects)
        pending += [
            os.path.realpath(os.path.join(objects, line))
            for line in (_read(f"{objects}/info/alternates") or "").splitlines()
            if line and not line.startswith("#")
        ]
    return tuple(found)


def read_line(path: str) -> str | None:
    """The first line of a small regular file without its end, None when there is none."""
    content = _read(path)
    return content.split("\n", 1)[0].rstrip("\r") if content is not None else None


def _read(path: str) -> str | None:
    try:
        descriptor = os.open(raw(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, encoding="utf-8", errors="surrogateescape") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(_POINTER_BYTES)
