"""Showing what a boundary was compiled to."""

from .console import quoted
from .render import size
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from ..compiled import Cap, Compiled
    from ..records import Artifact

BY = {
    "kernel": "held by the kernel",
    "watched": "watched: the run ends once it has more",
    "nobody": "not set: the kernel refused it",
    None: "held or watched, which is known once it runs",
}


def compiled_lines(found: "Compiled") -> "Iterator[str]":
    """A run's boundary, a line each."""
    yield "  command"
    yield "    " + " ".join(quoted(str(word)) for word in found["command"])
    program = found["executable"]
    yield "  executable"
    yield f"    {visible(program['sha256'] or 'no digest')} {visible(program['path'])}"
    if bwrap := found["bwrap"]:
        yield f"  bubblewrap: {visible(bwrap['version'])} {visible(bwrap['path'])}"
    yield from _files("instructions", found["instructions"])
    yield from _files("inputs", found["inputs"])
    yield "  caps"
    for cap in found["caps"]:
        yield f"    {_cap(cap)}"
    shown = {part: value for part, value in found["policy"].items() if part != "caps"}
    yield from policy_lines(shown)


def policy_lines(policy: "Mapping[str, Any]") -> "Iterator[str]":
    """A policy as the compiler describes it."""
    for part, value in policy.items():
        yield from _part(part, value)


def _files(name: str, files: "Iterable[Artifact] | None") -> "Iterator[str]":
    if files is None:
        yield f"  {name}: looked at when it starts"
        return
    lines = [f"    {file['sha256'] or 'no digest'} {visible(file['path'])}" for file in files]
    yield from (f"  {name}", *lines) if lines else (f"  {name}: none",)


def _cap(cap: "Cap") -> str:
    name, limit = cap["cap"], cap["limit"]
    shown = size(limit) if name.endswith("_bytes") else f"{limit:,}"
    return f"{visible(name.removesuffix('_bytes')).replace('_', ' ')} {shown}: {BY[cap['by']]}"


def _part(part: str, value: "Any") -> "Iterator[str]":
    if part == "argv" and isinstance(value, list):
        yield "  argv"
        yield "    " + " ".join(quoted(str(word)) for word in value)
    elif isinstance(value, list):
        yield f"  {visible(part)}"
        for entry in value:
            yield f"    {visible(_words(entry))}"
    else:
        yield f"  {visible(part).replace('_', ' ')}: {visible(_words(value))}"


def _words(value: "Any") -> "Any":
    if isinstance(value, dict):
        return " ".join(f"{name}={member}" for name, member in value.items())
    return value
