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
# What the compiler calls a path that nothing may be read from.
MASK = "mask"
# What a mount is, where that says more than what may be done there.
ACCESS_OF_KIND = {"symlink": "link", "tmpfs": "in memory", "file": "made here", "cover": "covered"}
_ACCESS_COLUMNS = 12


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


def fact_lines(facts: "Mapping[str, str]") -> "Iterator[str]":
    """What a profile lets a run touch, in words."""
    for fact, meaning in facts.items():
        yield f"  {visible(fact).replace('_', ' '):<13} {visible(meaning)}"


def _part(part: str, value: "Any") -> "Iterator[str]":
    if part == "argv" and isinstance(value, list):
        yield "  argv"
        yield "    " + " ".join(quoted(str(word)) for word in value)
    elif part == "mounts":
        yield "  mounts"
        yield from (f"    {_mount(mount)}" for mount in value)
    elif part == "environment":
        yield "  environment (secret ones with *)"
        names = (f"{each['name']}{'*' if each['secret'] else ''}" for each in value)
        yield f"    {visible(' '.join(names))}"
    elif isinstance(value, list):
        yield f"  {visible(part)}"
        for entry in value:
            yield f"    {visible(_words(entry))}"
    else:
        yield f"  {visible(part).replace('_', ' ')}: {visible(_words(value))}"


def _mount(mount: "Mapping[str, Any]") -> str:
    """What may be done at a path, and whose it is where it is no bound path of the same name."""
    kind, path, source = mount["kind"], mount["destination"], mount.get("source")
    if mount["role"] == MASK:
        return f"{'hidden':<{_ACCESS_COLUMNS}}{visible(path)}"
    what = ACCESS_OF_KIND.get(kind) or mount["access"]
    origin = f"  = {visible(source)}" if source not in (None, path) else ""
    return f"{visible(what):<{_ACCESS_COLUMNS}}{visible(path)}{origin}"


def _words(value: "Any") -> "Any":
    if isinstance(value, dict):
        return " ".join(f"{name}={member}" for name, member in value.items())
    return value
