"""Copy what a person's checkout has and no commit holds into a new worktree.

The process may read the checkout and write the worktree, so that no link leads to anything
else, whoever turns a file into one meanwhile: a commit that was merged, or an agent.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from coachmand.evidence.seeds import MAX_BYTES, MAX_FILES, read_file, write_link, write_seed
from coachmand.repos.errors import TOO_LARGE, UNFIT, RepoError


def copy_files(top: str, names: Sequence[str], tree: str) -> None:
    """Copy the files and folders ``names`` of the checkout ``top`` to the same places in ``tree``.

    Links are followed to files of the checkout. Below a folder, one to anything else stays a
    link. Raises RepoError where one of ``names`` leads elsewhere, is missing or no regular file.
    """
    left, size = MAX_FILES, MAX_BYTES
    for name in names:
        found = list(_files(top, name))
        if not found:
            raise _unfit(name, f"is not in {top}")
        for path in found:
            left -= 1
            size -= _copy(top, path, tree, path != name)
            if left < 0 or size < 0:
                limit = f"{MAX_FILES} files or {MAX_BYTES >> 20} MiB"
                text = f"what is to be copied is more than {limit}"
                raise RepoError(TOO_LARGE, f"{text}; use `setup` for that")


def _copy(top: str, path: str, tree: str, is_below: bool) -> int:
    """Copy one file; its size."""
    source = os.path.join(top, path)
    is_inside = _is_inside(top, source)
    if is_below and os.path.islink(source) and not (is_inside and os.path.isfile(source)):
        write_link(Path(tree), path, os.readlink(source))
        return 0
    if not is_inside:
        raise _unfit(path, f"leads out of {top}, to {os.path.realpath(source)}")
    try:
        content = read_file(source)
        mode = stat.S_IMODE(os.stat(source).st_mode) & 0o700
    except OSError as error:
        raise _unfit(path, f"cannot be read: {error.strerror}") from error
    if content is None:
        raise _unfit(path, "is no regular file")
    write_seed(Path(tree), path, content, mode)
    return len(content)


def _is_inside(top: str, path: str) -> bool:
    real = os.path.realpath(top)
    return os.path.commonpath([real, os.path.realpath(path)]) == real


def _files(top: str, name: str) -> Iterator[str]:
    where = os.path.join(top, name)
    if not os.path.isdir(where):
        if os.path.lexists(where):
            yield name
        return
    if not _is_inside(top, where):
        raise _unfit(name, f"leads out of {top}, to {os.path.realpath(where)}")
    for folder, below, files in os.walk(where):
        links = (each for each in below if os.path.islink(os.path.join(folder, each)))
        for each in sorted([*files, *links]):
            yield os.path.relpath(os.path.join(folder, each), top)


def _unfit(path: str, why: str) -> RepoError:
    return RepoError(UNFIT, f"{path}, which is to be copied, {why}")
