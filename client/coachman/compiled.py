"""What a run's boundary was compiled to, as the daemon returns it; `results` names it."""

from typing import Any, Literal, TypedDict

from .records import Artifact, Executable


class Bubblewrap(TypedDict):
    """The program that makes sandboxes."""

    path: str
    version: str


class Cap(TypedDict):
    """What a run may take of the machine.

    ``by`` is who sees to it: the ``kernel`` refuses more; it is ``watched``, and the run is ended
    once it was found to have more; ``nobody``; null as long as nobody can say.
    """

    cap: str
    limit: int
    by: Literal["kernel", "watched", "nobody"] | None


class Compiled(TypedDict):
    """What a boundary was compiled to: policy, arguments without values, and digests.

    ``instructions`` and ``inputs`` are null where nobody has looked yet.
    """

    policy: dict[str, Any]
    command: list[str]
    executable: Executable
    bwrap: Bubblewrap | None
    instructions: list[Artifact] | None
    inputs: list[Artifact] | None
    caps: list[Cap]


class RunPolicy(Compiled):
    """The same of one run, as it was before the agent of its newest ``attempt`` started."""

    run: str
    handle: str
    attempt: int
