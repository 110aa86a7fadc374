"""``coachman tree``: a run and all that came from it, with their states and costs."""

import time

from ..wire import EXIT_OK
from .durations import coarse
from .options import Command
from .render import cost, state, state_color, tokens
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..client import Client
    from .console import Console
    from .options import Arguments

    Row = Mapping[str, Any]

PAGE_ROWS = 1000
COMMAND = Command(
    "tree [X]",
    "Draw a run and the runs that came from it, with states, tokens and costs, and the sum of\n"
    "these. Without X it is the newest run of this repository, inside a run that run itself.",
    operands=(0, 1),
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Draw the family of one run."""
    own = console.env.get("COACHMAN_RUN", "@") if console.is_run else "@"
    named = arguments.operands[0] if arguments.operands else own
    client = console.client()
    top = client.run.get(named, dir=console.directory)
    below = _below(client, top["run"])
    if console.json:
        console.document({"run": _row_of(top), "below": below})
        return EXIT_OK
    for mark, row in _drawn(top, below):
        text = f"{mark}{_line(row)}"
        color = state_color(row)
        console.line(text if color is None else console.paint(text, color))
    if below:
        console.line(_sum([top, *below]))
    return EXIT_OK


def _below(client: "Client", run: str) -> "list[Row]":
    rows: list[Row] = []
    cursor = None
    while True:
        page = client.run.list(ancestor=run, all=True, limit=PAGE_ROWS, cursor=cursor)
        rows += page["runs"]
        cursor = page.get("next_cursor")
        if not cursor:
            return sorted(rows, key=lambda row: (row["created_at"], row["run"]))


def _row_of(details: "Row") -> "dict[str, Any]":
    """The members of a summary, without what only details have."""
    names = ("run", "handle", "task", "agent", "state", "outcome", "tokens", "cost_usd", "parent")
    return {name: details.get(name) for name in names}


def _drawn(top: "Row", below: "list[Row]") -> "Iterator[tuple[str, Row]]":
    children: dict[str, list[Row]] = {}
    for row in below:
        children.setdefault(str(row.get("parent")), []).append(row)
    yield "", top
    yield from _branches(str(top["run"]), children, "")


def _branches(
    run: str, children: "Mapping[str, list[Row]]", before: str
) -> "Iterator[tuple[str, Row]]":
    rows = children.get(run, [])
    for row in rows:
        last = row is rows[-1]
        yield before + ("└─ " if last else "├─ "), row
        yield from _branches(str(row["run"]), children, before + ("   " if last else "│  "))


def _line(row: "Row") -> str:
    began = row.get("started_at") or row.get("created_at") or 0
    ended = row.get("ended_at")
    took = coarse((ended / 1000 if ended else time.time()) - began / 1000)
    used = f"{tokens(row.get('tokens'))} tokens  {cost(row.get('cost_usd'))}"
    names = "  ".join(visible(row.get(name) or "") for name in ("handle", "task", "agent"))
    return f"{names}  {state(row)}  {took}  {used}"


def _sum(rows: "list[Row]") -> str:
    used = sum(row.get("tokens") or 0 for row in rows)
    usd = [row["cost_usd"] for row in rows if row.get("cost_usd") is not None]
    living = sum(row.get("outcome") is None for row in rows)
    spent = f"{tokens(used)} tokens, {cost(sum(usd)) if usd else cost(None)}"
    return f"{len(rows)} runs, {living} living: {spent}"
