"""What a run's gate decided, from the gate's log into the run's journal."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...journal import vocabulary as v
from ...journal.lines import Entry
from ..reading.decisions import Decision, all_of, read

if TYPE_CHECKING:
    from ..run import Run

# An agent can ask for names without an end; the gate's own log has a bound for each attempt.
MAX_NOTED = 400


async def note(run: "Run") -> None:
    """Journal what is new."""
    if run.attempt is None or not run.fixed.has_gate:
        return
    if entries := _new(run, await trio.to_thread.run_sync(all_of, run.attempt.path)):
        await run.record(entries)


async def new_in(run: "Run", directory: Path) -> list[Entry]:
    """What is new of what ran in ``directory`` before there was an agent, to be journaled."""
    if not run.fixed.has_gate:
        return []
    return _new(run, await trio.to_thread.run_sync(read, directory))


def _new(run: "Run", found: Iterable[Decision]) -> list[Entry]:
    known, entries = set(run.view.noted), []
    for decision in found:
        if decision.key not in known and len(known) < MAX_NOTED:
            known.add(decision.key)
            entries.append(Entry(v.NETWORK_DECIDED, decision.members()))
    return entries


async def counted(run: "Run") -> list[Entry]:
    """What is told at an attempt's end: what is new, and how often each was denied."""
    if run.attempt is None or not run.fixed.has_gate:
        return []
    found = await trio.to_thread.run_sync(all_of, run.attempt.path)
    denied = [{**each.members(), "count": each.count} for each in found if not each.allowed]
    for each in denied:
        del each["allowed"]
    total = [Entry(v.NETWORK_COUNTED, {"denied": denied[:MAX_NOTED]})] if denied else []
    return [*_new(run, found), *total]
