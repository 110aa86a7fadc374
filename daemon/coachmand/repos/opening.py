"""Open repositories with no configuration but their own."""

from typing import Any

import pygit2
from pygit2.enums import ConfigLevel, RepositoryOpenFlag

from coachmand.repos import formats

_EXACTLY = RepositoryOpenFlag.NO_SEARCH | RepositoryOpenFlag.NO_DOTGIT


def isolate_library() -> None:
    """Empty libgit2's search paths; ownership is judged by `discovery` instead."""
    for level in (
        ConfigLevel.PROGRAMDATA,
        ConfigLevel.SYSTEM,
        ConfigLevel.XDG,
        ConfigLevel.GLOBAL,
    ):
        pygit2.settings.search_path[level] = ""
    pygit2.settings.owner_validation = False
    pygit2.settings.homedir = "/nonexistent"


def open_bare(common_dir: str) -> Any:
    """The repository without any working tree: attributes of a checkout play no part."""
    refuse(common_dir)
    return pygit2.Repository(common_dir, _EXACTLY | RepositoryOpenFlag.BARE)


def open_admin(git_dir: str, common_dir: str) -> Any:
    """A checkout, by its git directory and never by the .git in its tree."""
    refuse(common_dir)
    return pygit2.Repository(git_dir, _EXACTLY)


def refuse(common_dir: str) -> None:
    """Raise RepoError for a repository that libgit2 would get wrong."""
    reason = formats.refused_config(common_dir)
    if reason:
        raise formats.unsupported(common_dir, reason)


def is_true(config: Any, name: str, default: bool) -> bool:
    """A boolean of the configuration; what is no boolean counts as the default."""
    try:
        return bool(config.get_bool(name)) if name in config else default
    except (KeyError, ValueError, pygit2.GitError):
        return default


def converts_line_ends(config: Any) -> bool:
    """Whether files differ from their blobs without any attribute that says so."""
    if "core.autocrlf" not in config:
        return False
    return str(config["core.autocrlf"]).lower() not in ("false", "no", "off", "0")
