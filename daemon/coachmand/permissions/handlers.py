"""What a run names to answer its questions: a file to exchange them, or a program of the user's."""

import os
from typing import Any, Literal

from attrs import frozen

NONE = "none"
FORM = "file:BASE or command:PATH, each absolute; or none"


@frozen
class Handler:
    """``path`` is absolute; ``sha256`` the program's when the run was started."""

    kind: Literal["file", "command"]
    path: str
    sha256: str | None = None
    origin: str = "request"

    @property
    def text(self) -> str:
        """The handler as somebody may ask for it."""
        return f"{self.kind}:{self.path}"

    @property
    def by(self) -> dict[str, Any]:
        """It, as one that decides something."""
        return {"resolver": "hook" if self.kind == "command" else "file", "path": self.path}


def is_handler(text: str) -> bool:
    """Whether ``text`` names a handler, or none."""
    return text == NONE or parsed(text, "request") is not None


def is_program(path: str) -> bool:
    """Whether ``path`` names a file in one way only."""
    sound = os.path.isabs(path) and "\0" not in path and os.path.normpath(path) == path
    return sound and bool(os.path.basename(path))


def parsed(text: str, origin: str) -> Handler | None:
    """The handler that ``text`` names; None where it names none."""
    kind, colon, path = text.partition(":")
    if not colon or not is_program(path):
        return None
    match kind:
        case "file":
            return Handler("file", path, origin=origin)
        case "command":
            return Handler("command", path, origin=origin)
    return None
