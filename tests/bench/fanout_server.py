"""One journal, written at full speed, behind the daemon's own listener and methods.

fanout_server.py SOCKET JOURNAL: beside `event.subscribe` there is `bench.write {count, batch}`,
which appends that many lines, closes the journal, and answers. An agent could not talk
this fast; everything behind it is the daemon's code.
"""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import trio
from attrs import frozen

from coachmand.journal.lines import Entry
from coachmand.journal.log import Journal
from coachmand.methods import event
from coachmand.methods.context import Context
from coachmand.rpc.listener import Listener
from coachmand.rpc.registry import Registry

RUN = "261129-220417-k7q3x"
ENVELOPE = {"attempt": 1, "turn": 1, "session": "demo-0123456789abcdef"}


@frozen
class WriteParams:
    """How many lines, and how many of them at once."""

    count: int
    batch: int


def registry_of(journal: Journal) -> Registry:
    """The methods of events, and the one that makes them."""
    registry = Registry()
    event.register(registry)

    @registry.method("bench.write", params=WriteParams, summary="Append lines at full speed.")
    async def write(_context: Any, params: WriteParams) -> dict[str, int]:
        for start in range(0, params.count, params.batch):
            numbers = range(start + 1, min(start + params.batch, params.count) + 1)
            chunks = [_chunk(number) for number in numbers]
            await journal.append(chunks, ENVELOPE)
        await journal.append([Entry("run.ended", {"outcome": "succeeded"})], ENVELOPE)
        journal.close()
        return {"head": journal.head}

    return registry


def _chunk(number: int) -> Entry:
    members = {"message_id": "m1-1", "text": f"chunk {number} of many\n"}
    return Entry("agent.message_chunk", members, number)


async def main(socket: str, path: str) -> None:
    journal = Journal(Path(path), RUN)
    run = SimpleNamespace(journal=journal, view=SimpleNamespace(state="active"))
    daemon: Any = SimpleNamespace(supervisor=SimpleNamespace(runs={RUN: run}), services=None)
    with Listener(socket) as listener:
        async with trio.open_nursery() as nursery:
            await nursery.start(
                listener.serve, registry_of(journal), lambda peer: Context(daemon, peer)
            )
            print("ready", flush=True)


trio.run(main, *sys.argv[1:])
