"""Delete an agent-writable tree, whatever its depth and modes."""

import contextlib
import os
import stat
from itertools import count

from coachmand.repos import beneath
from coachmand.repos.errors import FAILED, RepoError

_OWNER_ALL = 0o700
# Directories wait for their turn under this name at the top of the tree.
_WAITING = b".coachman-delete-%d"


def delete_tree(directory: str) -> None:
    """Delete a directory and all below it; nothing happens when it is not there.

    Every directory that is not empty is moved to the top of the tree and
    emptied there, so that neither the depth of the tree nor the length of a
    path matters, and a second call goes on where the first was interrupted.
    """
    target = beneath.raw(directory)
    if not _is_folder(target):
        return
    make_accessible(target, None)
    root = beneath.open_root(target)
    try:
        _empty(root)
    finally:
        os.close(root)
    os.rmdir(target)


def _empty(root: int) -> None:
    numbers = count()
    before: list[bytes] = []
    while names := beneath.names_in(root):
        if names == before:
            raise RepoError(FAILED, f"cannot delete: {len(names)} entries stay, as {names[0]!r}")
        before = names
        for name in names:
            _delete_at_top(root, name, numbers)


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def _delete_at_top(root: int, name: bytes, numbers: "count[int]") -> None:
    if _removed(root, name):
        return
    make_accessible(name, root)
    folder = beneath.open_folder(root, name)
    try:
        for inner in beneath.names_in(folder):
            if not _removed(folder, inner):
                make_accessible(inner, folder)
                _move_to_top(folder, inner, root, numbers)
    finally:
        os.close(folder)
    # Whoever wrote here may just be dying: what it left is found on the next round.
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=root)


def _removed(folder: int, name: bytes) -> bool:
    """Whether the entry is gone: a file, or a directory that was empty."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        if not _is_folder_in(folder, name):
            raise
        return False
    return True


def _is_folder_in(folder: int, name: bytes) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _move_to_top(folder: int, name: bytes, root: int, numbers: "count[int]") -> None:
    while True:
        waiting = _WAITING % next(numbers)
        try:
            os.stat(waiting, dir_fd=root, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, waiting, src_dir_fd=folder, dst_dir_fd=root)
            return


def make_accessible(
    name: bytes,
    folder: int | None,
    flags: int = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW,
    mode: int = _OWNER_ALL,
) -> None:
    """Give the owner ``mode``, all rights to a directory; a link is not followed."""
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) & mode != mode:
            os.chmod(f"/proc/self/fd/{descriptor}", mode)
    finally:
        os.close(descriptor)
