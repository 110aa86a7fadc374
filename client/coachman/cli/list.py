"""``coachman list``: what needs attention first."""

import time

from ..errors import DaemonNotRunning, UsageError
from ..wire import EXIT_OK, OUTCOMES, RUN_STATES
from .console import command
from .durations import since_ms
from .labels import labels_of
from .options import Command, Option
from .render import RUN_COLUMNS, RUN_NUMBERS, joined, run_row, size, state_color, table
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .console import Console
    from .options import Arguments

PAGE_ROWS = 1000
# Options that leave out no run.
_ANY_PAGE = frozenset(("color", "socket", "directory", "no-input", "output"))
COMMAND = Command(
    "list [OPTIONS]",
    "List the living runs and those of the last 12 hours, what needs attention first.\n"
    "Without a daemon the state directory's files answer, marked stale.",
    Option("-a --all", "older runs too"),
    Option(
        "--state",
        "only in these states (comma-separated)",
        "STATE",
        repeat=True,
        choices=RUN_STATES,
    ),
    Option("--outcome", "only with these outcomes", "OUTCOME", repeat=True, choices=OUTCOMES),
    Option("-t --task", "only of this task", "TASK"),
    Option("--agent", "only of this agent", "AGENT"),
    Option("-l --label", "only with this label", "KEY=VALUE", repeat=True),
    Option("--batch", "only of this batch", "NAME"),
    Option("--here", "only of this directory's repository"),
    Option("--attention", "only those that need you"),
    Option("--since", "only those created since: 30m ago, or a time", "TIME"),
    Option("--limit", "at most so many", "N"),
    Option("--cursor", "go on behind a page", "CURSOR"),
    Option("-o --output", "wide: what each run takes on disk, too", "FORM", choices=("wide",)),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Print a page of runs."""
    filters = _filters(console, arguments)
    stale: DaemonNotRunning | None = None
    page: Mapping[str, Any]
    try:
        page = _page(console, filters)
    except DaemonNotRunning as error:
        from .offline import read_page

        if console.socket or console.env.get("COACHMAN_SOCKET"):
            raise
        page, stale = read_page(console.env, filters), error
    if console.json:
        console.document({**page, "stale": True} if stale else page)
    elif console.quiet:
        for run in page["runs"]:
            console.line(visible(run.get("handle")))
    else:
        _print(console, page, arguments)
        if stale:
            console.note("no daemon is running: read from its files, and maybe stale")
            console.note(f"  {visible(stale.message)}")
    return EXIT_OK


def _page(console: "Console", filters: "dict[str, Any]") -> "Mapping[str, Any]":
    """One page, or with ``all`` and no limit every page as one."""
    client = console.client()
    if not filters["all"] or filters["limit"] or filters["cursor"]:
        return client.run.list(**filters)
    runs: list[Mapping[str, Any]] = []
    cursor = None
    while True:
        page = client.run.list(**{**filters, "limit": PAGE_ROWS, "cursor": cursor})
        runs += page["runs"]
        cursor = page.get("next_cursor")
        if not cursor:
            return {**page, "runs": runs, "older": 0}


def _filters(console: "Console", arguments: "Arguments") -> "dict[str, Any]":
    if (form := arguments.text("output")) not in (None, "wide"):
        raise UsageError(f"cannot list in the form {form!r}: choose wide")
    since = arguments.text("since")
    return {
        "state": _known("state", arguments.words("state"), RUN_STATES),
        "outcome": _known("outcome", arguments.words("outcome"), OUTCOMES),
        "task": arguments.text("task"),
        "agent": arguments.text("agent"),
        "labels": labels_of(arguments, "list"),
        "here": console.directory if arguments.has("here") else None,
        "since": since_ms(since) if since is not None else None,
        "attention": True if arguments.has("attention") else None,
        "all": True if arguments.has("all") else None,
        "limit": arguments.count("limit"),
        "cursor": arguments.text("cursor"),
    }


def _known(what: str, words: list[str] | None, names: tuple[str, ...]) -> list[str] | None:
    for word in words or ():
        if word not in names:
            raise UsageError(f"cannot list {what} {word!r}: choose {', '.join(names)}")
    return words


def _print(console: "Console", page: "Mapping[str, Any]", arguments: "Arguments") -> None:
    now_s = time.time()
    runs = sorted(page["runs"], key=lambda run: not run.get("attention"))
    if runs:
        head: Sequence[str] = RUN_COLUMNS
        rows = [run_row(run, now_s) for run in runs]
        if arguments.text("output") == "wide":
            head = (*head[:-1], "DISK", head[-1])
            disk = (size(run.get("bytes")) for run in runs)
            rows = [[*row[:-1], used, row[-1]] for row, used in zip(rows, disk, strict=True)]
        padded = table(head, rows, numbers=RUN_NUMBERS | {"DISK"}, width=console.width())
        console.line(console.paint(joined(padded[0]), "bold"))
        for run, cells in zip(runs, padded[1:], strict=True):
            if (color := state_color(run)) is not None:
                cells[3] = console.paint(cells[3], color)
            console.line(joined(cells))
    if footer := _footer(page, runs, arguments):
        console.line(footer)


def _footer(
    page: "Mapping[str, Any]", runs: "list[Mapping[str, Any]]", arguments: "Arguments"
) -> str:
    waiting = sum(bool(run.get("attention")) for run in runs)
    parts = [] if runs else ["no runs"]
    if waiting:
        parts.append("1 needs you" if waiting == 1 else f"{waiting} need you")
    narrowed = [name for name in arguments.names() if name not in _ANY_PAGE]
    if page.get("next_cursor"):
        again = command(["coachman", "list", *_repeated(arguments), str(page["next_cursor"])])
        parts.append(f"more: {again}")
    # The count is of all runs: with a filter it would tell of others.
    elif page.get("older") and not narrowed:
        parts.append(f"{page['older']} older: coachman list -a")
    return " · ".join(parts)


def _repeated(arguments: "Arguments") -> list[str]:
    """The words that filtered this page, and ``--cursor`` for the next one."""
    words = []
    for option in COMMAND.options:
        if option.name != "cursor":
            for value in arguments.texts(option.name):
                words += [option.flags[-1], *([value] if option.metavar else [])]
    return [*words, "--cursor"]
