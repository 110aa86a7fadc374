"""``event.subscribe`` with a filter: many runs as one stream, from one place on."""

from collections.abc import Mapping
from typing import Any

import trio
from attrs import field, frozen

from coachman import results

from ..evidence.state import repo_key
from ..journal.order import Place
from ..repos.errors import RepoError
from ..rpc.envelope import encode_notification
from ..rpc.errors import RpcError
from ..rpc.params import must
from ..runs.following.lists import with_batch
from ..runs.following.merged import Chosen, Merged
from .context import Context

MAX_RUNS = 256
# How long a client's cursor may stay behind while nothing comes that it wants.
PROGRESS_S = 1.0


@frozen
class Filter:
    """Runs that have all of these facts, which are fixed at their start.

    ``batch`` is the label of that name; ``here`` is a directory: the runs of its repository.
    ``runs`` names runs as everywhere else, ``parent`` the run that started them.
    """

    runs: tuple[str, ...] = field(
        default=(), validator=must(f"at most {MAX_RUNS}", lambda runs: len(runs) <= MAX_RUNS)
    )
    task: str | None = None
    agent: str | None = None
    labels: Mapping[str, str] = field(factory=dict)
    batch: str | None = None
    here: str | None = None
    parent: str | None = None


async def follow(
    context: Context,
    filter: Filter,
    types: tuple[str, ...],
    cursor: str | None,
    since: int | None,
    dir: str | None,
    *,
    until_now: bool,
) -> results.Subscribed:
    """Start the subscription. Raises RpcError."""
    chosen = await _chosen(context, filter, dir)
    place = _place(context, chosen, cursor, since)
    merged = Merged(context.supervisor, chosen, place, since_ms=since or 0, follow=not until_now)
    name = context.new_subscription()
    scope = context.subscriptions[name] = trio.CancelScope()
    pump = Pump(context, name, merged, chosen, types)
    context.peer.nursery.start_soon(pump.run, scope)
    return {"subscription": name, "cursor": place.encode()}


async def _chosen(context: Context, filter: Filter, dir: str | None) -> Chosen:
    runs = [await context.run(reference, dir) for reference in filter.runs]
    repo = None
    if filter.here is not None:
        try:
            found = await context.services.workers.locate(filter.here)
        except RepoError as error:
            text = f"cannot subscribe: {error.message}"
            raise RpcError("InvalidParams", text, error.hint) from error
        repo = repo_key(found.common_dir)
    parent = None if filter.parent is None else await context.run(filter.parent, dir)
    unique, within = tuple(dict.fromkeys(runs)), context.caller
    labels = with_batch(filter.labels, filter.batch, "subscribe")
    root = None if within is None else (await context.supervisor.record_of(within)).root
    return Chosen(unique, filter.task, filter.agent, repo, labels, parent, within, root)


def _place(context: Context, chosen: Chosen, cursor: str | None, since: int | None) -> Place:
    """Named runs begin with their first events, others with what happens from now on."""
    head = context.services.order.head
    if cursor is None:
        return Place() if since is not None or chosen.runs else Place(max(1, head))
    try:
        place = Place.decode(cursor)
    except ValueError:
        text = f"cannot subscribe: {cursor!r} is not a cursor of many runs"
        hint = "a cursor goes with the subscription that it came from"
        raise RpcError("InvalidParams", text, hint) from None
    if place.g > max(1, head):
        raise RpcError(
            "InvalidParams",
            f"cannot subscribe: the events end at {Place(head).encode()}, not at {cursor}",
            detail={"head": Place(head).encode()},
        )
    return place


class Pump:
    """Sends one client what it follows, as fast as it takes it and no faster."""

    def __init__(
        self, context: Context, name: str, merged: Merged, of: Chosen, types: tuple[str, ...]
    ) -> None:
        self._context = context
        self._shared = context.daemon.shared
        self._of = (of.key, types)
        self._name = name
        self._merged = merged
        self._wanted = tuple(f'{{"type":"{kind}"'.encode() for kind in types)
        self._head = (
            encode_notification("event.event", {"subscription": name}).removesuffix(b"}}\n") + b","
        )
        self._told_s = trio.current_time()

    def __repr__(self) -> str:
        return f"<Pump {self._name} {self._merged!r}>"

    async def run(self, scope: trio.CancelScope) -> None:
        """Send until there is nothing more to come."""
        self._shared.followers += 1
        try:
            with scope:
                await self._pump()
        finally:
            self._shared.followers -= 1
        self._context.subscriptions.pop(self._name, None)

    async def _pump(self) -> None:
        merged = self._merged
        while (reason := merged.end()) is None:
            before = merged.place
            placed = await merged.next()
            if self._wanted:
                placed = [one for one in placed if one.line.data.startswith(self._wanted)]
            if placed:
                await self._send(self._shared.lines(self._of, self._head, placed))
            elif trio.current_time() >= self._told_s + PROGRESS_S:
                await self._send(self._notification("event.progress"))
            if merged.is_live and merged.place != before:
                await self._shared.gather()
        await self._send(self._notification("event.end", reason=reason))

    async def _send(self, lines: bytes) -> None:
        self._told_s = trio.current_time()
        await self._context.peer.send_events(lines)

    def _notification(self, method: str, **members: Any) -> bytes:
        cursor = self._merged.place.encode()
        return encode_notification(
            method, {"subscription": self._name, "cursor": cursor, **members}
        )
