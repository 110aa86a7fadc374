"""The way out of an opening: there is no session to take prompts in, and why."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.conversation import Action


class NoSessionError(Exception):
    """The session cannot be had. ``error`` is the `TurnEnded` error to report, after ``told``."""

    def __init__(self, message: str, code: str, *told: Action) -> None:
        super().__init__(message)
        self.told = told
        self.error: dict[str, Any] = texts.fit({"message": message, "code": code})

    @classmethod
    def reported(cls, error: Mapping[str, Any]) -> "NoSessionError":
        """The agent's own error ({message, code?, data?}), which says more than ours would."""
        found = cls(str(error["message"]), "")
        found.error = texts.fit(dict(error))
        return found
