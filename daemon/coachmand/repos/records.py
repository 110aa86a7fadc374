"""What git operations return. Paths are text with undecodable bytes as surrogates."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen


@frozen
class Repository:
    """A repository as found from a directory inside it.

    ``prefix`` is that directory below ``toplevel``, "" for the top itself.
    ``head`` is a commit id, None when nothing was committed yet; ``branch`` is
    None when HEAD is detached. ``uncommitted`` counts changed and untracked
    paths. ``refused`` says why coachman would get this repository wrong, None
    when it would not.
    """

    common_dir: str
    toplevel: str
    prefix: str
    head: str | None
    branch: str | None
    uncommitted: int
    refused: str | None
    warnings: tuple[str, ...] = ()


@frozen
class Snapshot:
    """A tree as committed. ``changed`` is False when it equals the first parent's.

    ``left_out`` are paths that are not ignored and are not in the commit (as
    they are now): what cannot be stored or read, or is too large; the first 1000.
    """

    commit: str
    tree: str
    changed: bool
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@frozen
class Archived:
    """What an agent left, in a place of its own; ``left_out`` says of other paths what they are."""

    artifacts: tuple["Artifact", ...]
    left_out: Mapping[str, str] = field(factory=dict)


@frozen
class Salvage:
    """What of a worktree refs keep. ``admin`` is its entry, None where there is none.

    ``commit`` holds the tree, in a record of a run or in ``written``, the salvage record
    that was made. ``differs`` says what no ref kept before, ``refused`` what none can
    keep: where it is not empty nothing was written. Sizes are bytes on disk.
    """

    admin: str | None
    commit: str
    written: str | None
    differs: tuple[str, ...]
    refused: tuple[str, ...]
    bytes: int
    ignored_files: int
    ignored_bytes: int


@frozen
class Shown:
    """What a run sees of a repository. ``packs`` is None where there is no view of ``tip``.

    ``staged`` counts what only the worktree's index held.
    """

    tip: str
    packs: int | None
    staged: int = 0


@frozen
class Trimmed:
    """Files that were, or would be, deleted."""

    files: int
    bytes: int


@frozen
class FileChange:
    """One changed path. ``status`` is A, M, D or T (its type changed)."""

    path: str
    status: str
    added: int
    removed: int
    binary: bool


@frozen
class Artifact:
    """A regular file below a directory: relative path, bytes, lower-case hex digest.

    ``sha256`` is None for a file that was too large to be read.
    """

    path: str
    size: int
    sha256: str | None


def as_tuples(record: dict[str, Any]) -> dict[str, Any]:
    """JSON lists as the tuples that frozen records hold."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
