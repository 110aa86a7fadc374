"""What a question is about, as far as the agent says it: its kind, its command, its paths."""

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from . import commands

# How adapters end what they shorten.
CUT = " [cut]"
# A list that is as long may have been longer.
MAX_ITEMS = 31
# Questions of these kinds are about files, and say which.
ABOUT_PATHS = frozenset({"read", "edit", "delete", "move"})
_PATHS = (
    "path file_path filePath filepath notebook_path absolute_path dir_path directory cwd workdir"
    " working_directory source destination old_path new_path"
)
_PATH_KEYS = frozenset(_PATHS.split())


@frozen
class Placed:
    """A path from the worktree's top, or an absolute one; ``inside``: it is sure not to leave."""

    path: str
    inside: bool
    certain: bool


@frozen
class Workspace:
    """The run's worktree: where the agent sees it, where it lies, and the agent's own folder."""

    inside: str
    host: str
    subfolder: str = ""

    def place(self, path: str) -> "Placed":
        """Where a path of the agent's leads. Blocks.

        Symbolic links are the agent's own to make: what leads over one is not certain.
        """
        if path.startswith("~") or "\0" in path or path.endswith(CUT):
            return Placed(path, inside=False, certain=False)
        whole, top = os.path.join(self.inside, self.subfolder, path), self.inside + "/"
        plain = os.path.normpath(whole)
        if not (plain + "/").startswith(top):
            return Placed(plain, inside=False, certain=True)
        certain = (whole + "/").startswith(top) and self._is_certain(whole.removeprefix(top))
        return Placed(os.path.relpath(plain, self.inside), inside=certain, certain=certain)

    def _is_certain(self, path: str) -> bool:
        """Whether no step of ``path``, as it is written, leaves the tree or is a link just now."""
        # A doubled slash is no step: what begins with one would be looked up on the host.
        steps = [step for step in path.split("/") if step]
        for count in range(1, len(steps) + 1):
            part = os.path.normpath("/".join(steps[:count]))
            if part.split("/")[0] == "..":
                return False
            try:
                found = os.lstat(os.path.join(self.host, part))
            except FileNotFoundError:
                continue
            except OSError:
                return False
            if stat.S_ISLNK(found.st_mode):
                return False
        return True


@frozen
class Subject:
    """What is asked about. ``words`` are those of one simple command, None where it is none.

    ``whole``: nothing of it was cut.
    """

    kind: str
    command: str | None = None
    words: tuple[str, ...] | None = None
    paths: tuple[Placed, ...] = ()
    whole: bool = True


def subject_of(tool: Mapping[str, Any], workspace: Workspace) -> Subject:
    """What the question about ``tool`` is about. Blocks."""
    given = tool.get("input")
    members = given if isinstance(given, Mapping) else {}
    command, words = _command(members.get("command"))
    lists = [tool.get("locations"), tool.get("content"), members.get("changes")]
    said = list(dict.fromkeys(_paths(members, lists)))
    sizes = [len(each) for each in (members, *lists) if isinstance(each, Mapping | list)]
    whole = max(sizes) <= MAX_ITEMS and not (command or "").endswith(CUT)
    return Subject(
        str(tool.get("kind") or "other"),
        command,
        words if whole else None,
        tuple(workspace.place(path) for path in said),
        whole,
    )


def _command(given: Any) -> tuple[str | None, tuple[str, ...] | None]:
    """The text of a command, and its words where it is a simple one, however it is handed over."""
    if isinstance(given, str):
        return given, commands.words_of(given)
    if isinstance(given, list):
        # Whether a shell will see them joined is not known here.
        text = " ".join(map(str, given))
        words = commands.words_of(text)
        return text, words if words == tuple(given) else None
    return (None, None) if given is None else (str(given), None)


def _paths(members: Mapping[str, Any], lists: list[Any]) -> Iterator[str]:
    for key, value in members.items():
        if key in _PATH_KEYS and isinstance(value, str) and value:
            yield value
    for items in lists:
        for item in items if isinstance(items, list) else ():
            if isinstance(item, Mapping) and isinstance(item.get("path"), str):
                yield item["path"]
