"""``coachman diff``: what a run or a task changed, as a patch that `git apply` takes."""

import base64
import sys

from ..errors import UsageError
from ..wire import EXIT_OK
from .options import Command, Option
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client import Client
    from ..results import Diff
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "diff [X] [OPTIONS]",
    "Print what a run changed, or a task since its base. The output is a full patch:\n"
    "coachman diff X | git apply --index",
    Option("--stat", "files with the lines added and removed"),
    Option("--names", "names of the changed files"),
    Option("--offset", "with --json: where the page begins, in bytes", "N"),
    Option("--limit", "with --json: how many bytes of patch", "N"),
    operands=(0, 1),
)
_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def main(console: "Console", arguments: "Arguments") -> int:
    """Print the patch; with --json one page of it."""
    if arguments.has("stat") and arguments.has("names"):
        raise UsageError("cannot diff: --stat and --names exclude each other")
    if not console.json and (arguments.has("offset") or arguments.has("limit")):
        raise UsageError(
            "cannot diff: --offset and --limit are for --json", hint="without it all is printed"
        )
    offset, limit = arguments.integer("offset"), arguments.count("limit")
    client = console.client()
    named = arguments.operands[0] if arguments.operands else "@"
    query: dict[str, Any] = {
        **_meant(client, named, console.directory),
        "stat": arguments.has("stat") or None,
        "names": arguments.has("names") or None,
        "dir": console.directory,
    }
    page = client.run.diff(offset=offset, limit=limit, **query)
    if console.json:
        console.document(page)
    elif arguments.has("stat") or arguments.has("names"):
        _print_files(console, page, stat=arguments.has("stat"))
    else:
        _print_patch(console, page)
        while (offset := page.get("next_offset")) is not None:
            page = client.run.diff(offset=offset, **query)
            _print_patch(console, page)
    return EXIT_OK


def _meant(client: "Client", named: str, directory: str | None) -> dict[str, str]:
    """A task's name means the task, and not its newest run as elsewhere."""
    found = client.run.get(named, dir=directory)
    return {"task": named} if found["task"] == named else {"run": found["run"]}


def _print_files(console: "Console", page: "Diff", *, stat: bool) -> None:
    for change in page["files"]:
        path = visible(change["path"])
        if not stat:
            console.line(path)
        elif change.get("binary"):
            console.line(f"{visible(change.get('status') or ''):<10} {'binary':>12}  {path}")
        else:
            lines = f"+{change.get('added') or 0} -{change.get('removed') or 0}"
            console.line(f"{visible(change.get('status') or ''):<10} {lines:>12}  {path}")


def _print_patch(console: "Console", page: "Diff") -> None:
    data = patch_bytes(page)
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    for line in data.decode("utf-8", "backslashreplace").splitlines():
        shown = visible(line, lines=True)
        color = _COLORS.get(line[:1])
        console.line(console.paint(shown, color) if color else shown)


def patch_bytes(page: "Diff") -> bytes:
    """The page's part of the patch, byte for byte."""
    encoded = page.get("patch_b64")
    if encoded is not None:
        return base64.b64decode(encoded)
    return (page.get("patch") or "").encode("utf-8", "surrogateescape")
