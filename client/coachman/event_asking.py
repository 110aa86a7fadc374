"""The members of events about what is asked: to be allowed, or in words."""

from typing import Any, NotRequired, TypedDict

from .event_envelope import By
from .records import Option


class PermissionRequested(TypedDict):
    """The agent asks; ``deadline`` is when it is denied, where somebody is waited for."""

    request: str
    tool: dict[str, Any]
    question: str
    options: list[Option]
    deadline: NotRequired[int]
    deadline_boottime_s: NotRequired[float]
    deadline_boot: NotRequired[str]


class PermissionPassed(TypedDict):
    """A rule or a handler left a question to the others, for ``reason``."""

    request: str
    by: By
    reason: str


class PermissionResolved(TypedDict):
    """The one answer; ``option`` null: nothing was chosen, and ``outcome`` says why."""

    request: str
    option: str | None
    kind: NotRequired[str | None]
    outcome: str
    by: By
    message: NotRequired[str]


class QuestionAsked(TypedDict):
    """A run asks its parent, or whoever watches, until ``deadline``."""

    request: str
    question: str
    options: list[str]
    deadline: int
    deadline_boottime_s: float
    deadline_boot: str
    key: NotRequired[str]


class QuestionAnswered(TypedDict):
    """The one answer; null where nobody gave one: ``outcome`` is expired or withdrawn then."""

    request: str
    outcome: str
    answer: str | None
    by: By
