"""What can go wrong with a repository, as data that crosses a pipe."""

from typing import Any

NOT_A_REPOSITORY = "not_a_repository"
NOT_OWNED = "not_owned"
UNSUPPORTED = "unsupported_repository"
UNKNOWN_REVISION = "unknown_revision"
EXISTS = "exists"
WORKTREE_MOVED = "worktree_moved"
CONFLICT = "conflict"
UNFIT = "unfit_input"
TOO_LARGE = "too_large"
CONFINEMENT = "confinement_unavailable"
CRASHED = "operation_crashed"
TIMED_OUT = "operation_timed_out"
WORKER_LOST = "worker_lost"
FAILED = "git_failed"


class RepoError(Exception):
    """One operation on a repository failed; others are unaffected.

    ``name`` is one of this module's constants, ``message`` reads "cannot X: Y",
    ``hint`` says what to do next.
    """

    def __init__(self, name: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.hint = hint

    def as_wire(self) -> dict[str, Any]:
        """The error as a JSON object."""
        return {"name": self.name, "message": self.message, "hint": self.hint}

    @classmethod
    def from_wire(cls, error: dict[str, Any]) -> "RepoError":
        """The error that `as_wire` wrote."""
        return cls(error["name"], error["message"], error.get("hint"))
