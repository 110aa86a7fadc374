"""``coachman usage``: what runs used, summed."""

from itertools import product

from ..errors import UsageError
from ..wire import EXIT_OK, OUTCOMES
from .durations import since_ms
from .labels import labels_of
from .options import Command, Option
from .render import NOTHING, cost, joined, table, tokens
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from .console import Console
    from .options import Arguments

PAGE_ROWS = 1000
DEFAULT_SINCE = "7d"
BY = ("agent", "model", "task", "profile", "outcome", "label")
_NUMBERS = frozenset({"RUNS", "TOKENS", "COST"})
COMMAND = Command(
    "usage [OPTIONS]",
    "Sum tokens, cost, runs and outcomes of the living runs and of those that ended since a time.\n"
    "With label a run counts once for each of its labels. What tells no cost is counted apart.",
    Option("--since", f"30m ago, or a time (default {DEFAULT_SINCE})", "TIME"),
    Option("--by", f"a row for each {', '.join(BY)} (comma-separated)", "WHAT", repeat=True),
    Option("-l --label", "only with this label", "KEY=VALUE", repeat=True),
    Option("--batch", "only of this batch", "NAME"),
    Option("--here", "only of this directory's repository"),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Print the sums, a row for each group and one for all."""
    by = tuple(arguments.words("by") or ("agent",))
    for word in by:
        if word not in BY:
            raise UsageError(f"cannot sum by {word!r}: choose {', '.join(BY)}")
    since = since_ms(arguments.text("since") or DEFAULT_SINCE)
    runs = list(_runs(console, arguments, since))
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        for key in product(*(_names(run, word) for word in by)):
            groups.setdefault(key, []).append(run)
    rows = [
        {"group": dict(zip(by, key, strict=True)), **_sum(of)} for key, of in sorted(groups.items())
    ]
    total = _sum(runs)
    if console.json:
        console.document({"since": since, "by": list(by), "rows": rows, "total": total})
    elif not console.quiet:
        _print(console, by, rows, total)
    return EXIT_OK


def _runs(console: "Console", arguments: "Arguments", since: int) -> "Iterator[Mapping[str, Any]]":
    filters: dict[str, Any] = {
        "since": since,
        "labels": labels_of(arguments, "tell the usage"),
        "here": console.directory if arguments.has("here") else None,
        "limit": PAGE_ROWS,
    }
    client, cursor = console.client(), None
    while True:
        page = client.run.list(**filters, cursor=cursor)
        yield from page["runs"]
        cursor = page.get("next_cursor")
        if not cursor:
            return


def _names(run: "Mapping[str, Any]", word: str) -> list[str]:
    """What a run is counted under; a living one has no outcome yet."""
    if word == "label":
        labels: Mapping[str, str] = run.get("labels") or {}
        return [f"{key}={value}" for key, value in sorted(labels.items())] or [NOTHING]
    found = run.get(word) or (run["state"] if word == "outcome" else None)
    return [str(found or NOTHING)]


def _sum(runs: "list[Mapping[str, Any]]") -> "dict[str, Any]":
    known = [run["cost_usd"] for run in runs if run.get("cost_usd") is not None]
    counted = [run["tokens"] for run in runs if run.get("tokens") is not None]
    ended = [run["outcome"] for run in runs if run.get("outcome")]
    return {
        "runs": len(runs),
        "tokens": sum(counted) if counted else None,
        "cost_usd": round(sum(known), 6) if known else None,
        "without_cost": len(runs) - len(known),
        "outcomes": {name: ended.count(name) for name in OUTCOMES if name in ended},
    }


def _print(
    console: "Console", by: "tuple[str, ...]", rows: "list[dict[str, Any]]", total: "dict[str, Any]"
) -> None:
    head = (*(word.upper() for word in by), "RUNS", "TOKENS", "COST", "OUTCOMES")
    lines = [[*map(visible, row["group"].values()), *_cells(row)] for row in rows]
    lines.append(["all", *[""] * (len(by) - 1), *_cells(total)])
    padded = table(
        head, lines, numbers=frozenset({"RUNS", "TOKENS", "COST"}), width=console.width()
    )
    for cells in padded:
        console.line(joined(cells).rstrip())
    if total["without_cost"] and total["cost_usd"] is not None:
        console.note(f"{total['without_cost']} of {total['runs']} runs tell no cost")


def _cells(row: "Mapping[str, Any]") -> list[str]:
    outcomes = [f"{count} {name.replace('_', ' ')}" for name, count in row["outcomes"].items()]
    return [
        str(row["runs"]),
        tokens(row["tokens"]),
        cost(row["cost_usd"]),
        ", ".join(outcomes) or NOTHING,
    ]
