"""What every event has, and what several types of them share."""

from typing import Any, NotRequired, TypedDict


class Envelope(TypedDict):
    """What every event has. ``n`` numbers what an attempt's conversation said, ``ts`` is ms.

    ``g`` is its place among the events of all runs, greater than that of any before it; what was
    written by a daemon without such places has none. ``late``: it is of a turn that had ended
    before it came.
    """

    type: str
    seq: int
    g: NotRequired[int]
    ts: int
    run: str
    attempt: NotRequired[int]
    turn: NotRequired[int]
    session: NotRequired[str]
    n: NotRequired[int]
    cut: NotRequired[dict[str, Any]]
    late: NotRequired[bool]


class By(TypedDict, total=False):
    """Who decided something: a client, a rule, the mode, a handler, a deadline, the agent itself.

    ``mode`` is that of "policy"; ``rule`` and ``origin`` are those of "rule"; ``path`` is the
    BASE of "file" or the program of "hook".
    """

    resolver: str
    client: str | None
    pid: int
    uid: int
    user: str
    mode: str
    rule: str
    origin: str
    path: str


class PromptFile(TypedDict):
    """What a prompt's file held when it was written; ``sha256`` in lower-case hex."""

    bytes: int
    sha256: str
