"""Which repositories libgit2 would get wrong: recognized by what they declare."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ObjectType

from coachmand.repos import objects
from coachmand.repos.errors import UNSUPPORTED, RepoError

ATTRIBUTES_NAME = b".gitattributes"
# Larger ones are ignored by git, too.
ATTRIBUTES_LIMIT_BYTES = 100 << 20

_CONFIG_LIMIT_BYTES = 1 << 20
_INCLUDE = re.compile(rb"^\s*\[\s*include(if)?[\s\].\"]", re.IGNORECASE | re.MULTILINE)
_CONVERTING = re.compile(rb"(?:^|\s)((?:filter|working-tree-encoding)=\S+)")

_EXTENSIONS = {
    "extensions.partialclone": "it is a partial clone; fetch everything and unset "
    "extensions.partialClone",
    "core.sparsecheckout": "it has a sparse checkout",
    "core.splitindex": "it has a split index",
    "index.sparse": "it has a sparse index",
}
_KNOWN_EXTENSIONS = frozenset(
    {"noop", "worktreeconfig", "objectformat", "preciousobjects", "partialclone", "refstorage"}
)


def refused_config(common_dir: str) -> str | None:
    """Why the configuration rules the repository out, None when it does not.

    Read before libgit2 opens anything: it may refuse to, with less to say.
    """
    for name in ("config", "config.worktree"):
        path = Path(common_dir, name)
        if path.is_file() and (reason := _refused_file(path)):
            return reason
    if any(Path(common_dir).glob("sharedindex.*")):
        return _EXTENSIONS["core.splitindex"]
    return None


def _refused_file(path: Path) -> str | None:
    content = path.read_bytes()[:_CONFIG_LIMIT_BYTES]
    if _INCLUDE.search(content):
        return f"its {path.name} includes another configuration file"
    try:
        config = pygit2.Config(str(path))
        values = {entry.name.lower(): entry.value or "true" for entry in config}
        return _refused_values(values)
    except (pygit2.GitError, ValueError, UnicodeError) as error:
        return f"its {path.name} cannot be read: {error}"


def _refused_values(values: dict[str, str]) -> str | None:
    if values.get("extensions.objectformat", "sha1").lower() != "sha1":
        return "it uses the sha256 object format"
    if values.get("extensions.refstorage", "files").lower() != "files":
        return f"it stores refs as {values['extensions.refstorage']}"
    if any(re.fullmatch(r"remote\..*\.promisor", name) for name in values):
        return _EXTENSIONS["extensions.partialclone"]
    for name, reason in _EXTENSIONS.items():
        if values.get(name, "false").lower() not in ("false", "no", "off", "0"):
            return reason
    for name in values:
        extension = name.removeprefix("extensions.")
        if extension != name and extension not in _KNOWN_EXTENSIONS:
            return f"it uses the unknown extension {extension}"
    return None


def refused_tree(
    repo: Any, common_dir: str, items: Sequence[objects.Item]
) -> tuple[str | None, tuple[str, ...]]:
    """Why the attributes at a tree rule it out (or None), and warnings about the tree."""
    info = Path(common_dir, "info", "attributes")
    declared = converting(info.read_bytes()) if info.is_file() else ()
    if declared:
        return f"info/attributes declares {declared[0]}", ()
    submodules = 0
    for path, (mode, oid) in items:
        if mode == objects.SUBMODULE:
            submodules += 1
        elif path.rpartition(b"/")[2] == ATTRIBUTES_NAME and mode != objects.LINK:
            declared = converting(_blob(repo, oid))
            if declared:
                where = os.fsdecode(path)
                return f"{where} declares {declared[0]}, which needs a program to convert", ()
    return None, tuple(_submodule_warnings(submodules))


def _submodule_warnings(count: int) -> Iterator[str]:
    if count:
        yield f"{count} submodule{'s' if count > 1 else ''}: left empty in task worktrees"


def converting(attributes: bytes) -> tuple[str, ...]:
    """The attributes in a .gitattributes file that make git convert by other programs' rules."""
    return tuple(
        match.group(1).decode("utf-8", "replace")
        for line in attributes.splitlines()
        if not line.lstrip().startswith(b"#")
        for match in [_CONVERTING.search(line)]
        if match
    )


def _blob(repo: Any, oid: bytes) -> bytes:
    kind, data = repo.read(pygit2.Oid(raw=oid))
    return data if kind == ObjectType.BLOB else b""


def unsupported(where: str, reason: str) -> RepoError:
    """The error that names why a repository is refused."""
    return RepoError(
        UNSUPPORTED,
        f"cannot use {where}: {reason}",
        "this repository needs git's own programs, which coachman does not run on the host",
    )
