"""What a run's boundary was compiled to, for people and for the record: ``policy.json``."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import asdict

from coachman_sandbox import bubblewrap, layout
from coachman_sandbox.policy import Policy, Tmpfs

from ...evidence.rundir import RunDirectory, put_json, read_json
from ...repos.records import Artifact
from ..keepers.starting import read_state

if TYPE_CHECKING:
    from ..services import Services
    from .program import Program

# Who sees to a cap: the kernel refuses more, the run is ended once it was found to have more,
# or nobody; None until it runs.
KERNEL, WATCHED, NOBODY = "kernel", "watched", "nobody"


def document(
    policy: Policy,
    command: Sequence[str],
    program: "Program",
    services: "Services",
    instructions: Sequence[Artifact] | None = None,
    inputs: Sequence[Artifact] | None = None,
) -> dict[str, Any]:
    """Policy, arguments and command without values, and the digests of what goes in. Pure.

    ``instructions`` and ``inputs`` are None where nobody has looked yet.
    """
    bwrap = None if policy.confinement == "none" else services.boundary.bwrap
    return {
        "policy": bubblewrap.describe(policy),
        "command": list(command),
        "executable": {
            "path": program.path or program.python,
            "sha256": program.sha256,
            "version": program.version,
        },
        "bwrap": {"path": bwrap.path, "version": bwrap.version} if bwrap else None,
        "instructions": None if instructions is None else [asdict(each) for each in instructions],
        "inputs": None if inputs is None else [asdict(each) for each in inputs],
        "caps": _caps(policy),
    }


def _caps(policy: Policy) -> list[dict[str, Any]]:
    sized = {mount.destination: mount for mount in policy.mounts if isinstance(mount, Tmpfs)}
    rows = [
        {"cap": name, "limit": sized[where].size_bytes, "by": KERNEL}
        for name, where in (("tmp_bytes", layout.TMP), ("shm_bytes", layout.SHM))
        if where in sized
    ]
    if policy.caps is not None:
        rows += [
            {"cap": name, "limit": limit, "by": None} for name, limit in asdict(policy.caps).items()
        ]
    return rows


def record(directory: RunDirectory, attempt: int, made: Mapping[str, Any]) -> None:
    """Put it on record before the attempt's agent starts; the newest attempt's is kept. Blocks."""
    put_json(directory.path / "policy.json", {"format": 1, "attempt": attempt, **made})


def read(directory: RunDirectory) -> dict[str, Any] | None:
    """The record, with what the attempt's keeper could have the kernel hold. Blocks.

    None for a run of a version that kept none, or that has not come so far.
    """
    try:
        found = read_json(directory.path / "policy.json")
    except FileNotFoundError:
        return None
    state = read_state(directory.attempt(found["attempt"])) or {}
    found["caps"] = held(found["caps"], state.get("caps"))
    return {name: member for name, member in found.items() if name != "format"}


def held(
    rows: Sequence[Mapping[str, Any]], kernel: Mapping[str, bool] | None
) -> list[dict[str, Any]]:
    """The caps with who sees to each, from what a keeper wrote down."""
    return [{**row, "by": row["by"] or _by(row["cap"], kernel)} for row in rows]


def _by(cap: str, kernel: Mapping[str, bool] | None) -> str | None:
    if kernel is None:
        return None
    if kernel.get(cap.removesuffix("_bytes")):
        return KERNEL
    return NOBODY if cap == "oom_score" else WATCHED
