"""The members of a run's view that are records of their own. All they hold are JSON values."""

from typing import Any

from attrs import define, field

QUESTION_CHARACTERS = 200
NOW_CHARACTERS = 120
# Of what an agent may do without an end: settled questions, tools that it never ends.
MAX_REMEMBERED = 1024


@define
class Permission:
    """A question of the agent, as it was asked; ``passed``: who left it to others, and why."""

    request: str
    tool: dict[str, Any]
    question: str
    options: list[dict[str, Any]]
    requested_at: int
    deadline: int | None = None
    deadline_boottime_s: float | None = None
    deadline_boot: str | None = None
    passed: list[dict[str, Any]] = field(factory=list)

    def public(self) -> dict[str, Any]:
        """What clients are shown of it."""
        names = ("request", "question", "tool", "options", "requested_at", "deadline", "passed")
        return {name: getattr(self, name) for name in names}

    def summary(self) -> dict[str, Any]:
        """What is kept of it once it is settled; the journal has the rest."""
        return {
            "question": self.question[:QUESTION_CHARACTERS],
            "requested_at": self.requested_at,
            "deadline": self.deadline,
        }


@define
class Question:
    """What a run asks its parent, or whoever watches; who asks again names it by its ``key``."""

    request: str
    question: str
    options: list[str]
    asked_at: int
    deadline: int
    deadline_boottime_s: float
    deadline_boot: str
    key: str | None = None

    def public(self) -> dict[str, Any]:
        """What clients are shown of it."""
        names = ("request", "question", "options", "asked_at", "deadline")
        return {name: getattr(self, name) for name in names}


@define
class Site:
    """Where a run works: known once its worktree exists, and recorded with its attempt.

    ``admin`` names the worktree's entry in the repository, ``subfolder`` the working directory
    below the worktree's top, ``start`` the commit that the run starts from.
    """

    admin: str = ""
    subfolder: str = ""
    start: str | None = None


@define
class Queued:
    """A prompt that waits for its turn; ``number`` names its file, ``title`` is its first line.

    ``file`` has the file's size and digest; None where an earlier version wrote it.
    """

    number: int
    title: str = ""
    file: dict[str, Any] | None = None
