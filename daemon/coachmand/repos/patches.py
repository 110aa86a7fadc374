"""What changed between two trees: a patch for `git apply --index`, and names."""

from typing import Any

from attrs import asdict
from pygit2.enums import DeltaStatus, DiffOption

from coachmand.repos import beneath, objects, opening
from coachmand.repos.errors import TOO_LARGE, RepoError
from coachmand.repos.records import FileChange

MAX_PATCH_BYTES = 256 << 20

_LETTERS = {
    DeltaStatus.ADDED: "A",
    DeltaStatus.DELETED: "D",
    DeltaStatus.MODIFIED: "M",
    DeltaStatus.TYPECHANGE: "T",
}


def patch(common: str, old: str, new: str) -> bytes:
    """The patch from ``old`` to ``new`` (commits or trees), binaries included, no renames."""
    parts: list[bytes] = []
    size = 0
    # Without "type change" a file that becomes a link is a deletion and an addition, as git wants.
    for part in _diff(common, old, new, DiffOption.SHOW_BINARY):
        if part is not None:
            parts.append(_unambiguous(part))
            size += len(parts[-1])
        if size > MAX_PATCH_BYTES:
            raise RepoError(
                TOO_LARGE,
                f"cannot show the diff: it is larger than {MAX_PATCH_BYTES >> 20} MiB",
                "list the names only, or compare in the worktree",
            )
    return b"".join(parts)


def _unambiguous(part: Any) -> bytes:
    """The part with names in quotes where `git apply` could not tell where one ends.

    It fails on the header that git itself writes for a name that begins or
    ends with a space.
    """
    data: bytes = part.data
    path = part.delta.new_file.raw_path
    plain = b"diff --git a/%s b/%s\n" % (path, path)
    if b" " in path and data.startswith(plain):
        return b'diff --git "a/%s" "b/%s"\n' % (path, path) + data[len(plain) :]
    return data


def changes(common: str, old: str, new: str) -> list[dict[str, Any]]:
    """A `FileChange` for each path that differs."""
    return [asdict(_change(part)) for part in _typed(common, old, new) if part is not None]


def _typed(common: str, old: str, new: str) -> Any:
    return _diff(common, old, new, DiffOption.INCLUDE_TYPECHANGE)


def _diff(common: str, old: str, new: str, flags: DiffOption) -> Any:
    repo = opening.open_bare(common)
    before, after = (repo[objects.tree_of(repo, each).hex()] for each in (old, new))
    return before.diff_to_tree(after, flags=flags, interhunk_lines=0)


def _change(part: Any) -> FileChange:
    delta = part.delta
    _, added, removed = part.line_stats
    side = delta.old_file if delta.status == DeltaStatus.DELETED else delta.new_file
    return FileChange(
        beneath.text(side.raw_path),
        _LETTERS.get(delta.status, "M"),
        added,
        removed,
        bool(delta.is_binary),
    )
