"""``event.*``: subscriptions and pages over a run's journal."""

from pathlib import Path

import structlog
import trio
from attrs import frozen

from coachman import results

from ..evidence.rundir import RunDirectory
from ..journal import vocabulary as v
from ..journal.cursors import Cursor, FileCursor
from ..journal.damage import DamagedError
from ..journal.lines import Line, decode, decode_cursor, encode_cursor
from ..journal.log import last_seq_of, last_type_of
from ..rpc.envelope import encode_notification
from ..rpc.errors import RpcError
from ..rpc.registry import Registry
from . import event_merged
from .context import Context
from .event_merged import Filter

log = structlog.get_logger("event")
MAX_PAGE = 1000
MAX_WAIT_S = 60.0


@frozen
class SubscribeParams:
    """One ``run`` from after ``cursor`` or ``after_seq`` (one of them; from the start without).

    Or, with a ``filter``, many runs as one stream: from after ``cursor``, else from the first
    events of the runs that it names, or from now on. ``since`` (ms) goes back so far; without
    ``follow`` it ends at what is there by now.
    """

    run: str | None = None
    filter: Filter | None = None
    cursor: str | None = None
    after_seq: int | None = None
    since: int | None = None
    follow: bool = True
    types: tuple[str, ...] = ()
    dir: str | None = None


@frozen
class UnsubscribeParams:
    """The subscription to end."""

    subscription: str


@frozen
class ReadParams:
    """A page of events; ``wait_s`` waits for the first one where there is none yet."""

    run: str
    cursor: str | None = None
    after_seq: int | None = None
    limit: int = 100
    wait_s: float = 0.0
    dir: str | None = None


def register(registry: Registry) -> None:
    """Add this noun's methods."""

    @registry.method(
        "event.subscribe",
        params=SubscribeParams,
        result=results.Subscribed,
        summary="Follow the events of a run, or of all that a filter takes, from however far back.",
        errors=("NotFound",),
    )
    async def subscribe(context: Context, params: SubscribeParams) -> results.Subscribed:
        if params.filter is not None:
            _check_alone(params)
            return await event_merged.follow(
                context,
                params.filter,
                params.types,
                params.cursor,
                params.since,
                params.dir,
                until_now=not params.follow,
            )
        if params.since is not None or not params.follow:
            text = "cannot subscribe: `since` and `follow` go with a filter only"
            raise RpcError("InvalidParams", text, "name the run in filter.runs")
        run, cursor = await _open(context, params)
        name = context.new_subscription()
        scope = context.subscriptions[name] = trio.CancelScope()
        context.peer.nursery.start_soon(_pump, context, name, run, cursor, params.types, scope)
        return {"subscription": name, "cursor": encode_cursor(run, cursor.seq)}

    @registry.method(
        "event.unsubscribe",
        params=UnsubscribeParams,
        result=results.Unsubscribed,
        summary="End a subscription of this connection.",
    )
    def unsubscribe(context: Context, params: UnsubscribeParams) -> results.Unsubscribed:
        scope = context.subscriptions.pop(params.subscription, None)
        if scope is not None:
            scope.cancel()
        return {"ended": scope is not None}

    @registry.method(
        "event.read",
        params=ReadParams,
        result=results.EventPage,
        summary="A page of a run's events; a long poll for clients without subscriptions.",
        waits=True,
        errors=("NotFound",),
    )
    async def read(context: Context, params: ReadParams) -> results.EventPage:
        run, cursor = await _open(context, params)
        limit = max(1, min(params.limit, MAX_PAGE))
        lines: list[Line] = []
        while len(lines) < limit and (batch := await cursor.take()):
            lines += batch
        if not lines and params.wait_s > 0:
            with trio.move_on_after(min(params.wait_s, MAX_WAIT_S)):
                lines = await cursor.next()
        lines = lines[:limit]
        head, ended = _head(context, run, cursor)
        seq = lines[-1].seq if lines else params_seq(params)
        return {
            "events": [results.Event(decode(line.data)) for line in lines],
            "cursor": encode_cursor(run, seq),
            "ended": ended and seq >= head,
            "head": head,
        }


def _check_alone(params: SubscribeParams) -> None:
    """Raise RpcError where a member goes with a single run only."""
    for name in ("run", "after_seq"):
        if getattr(params, name) is not None:
            text = f"cannot subscribe: a filter goes without `{name}`"
            raise RpcError("InvalidParams", text, detail={"member": name})


def params_seq(params: SubscribeParams | ReadParams) -> int:
    """The seq after which the caller wants to read."""
    if params.cursor is None:
        return params.after_seq or 0
    try:
        return decode_cursor(params.cursor)[1]
    except ValueError:
        text = f"cannot read events: {params.cursor!r} is not a cursor of this daemon"
        raise RpcError("InvalidParams", text) from None


async def _open(
    context: Context, params: SubscribeParams | ReadParams
) -> tuple[str, Cursor | FileCursor]:
    if params.run is None:
        text = "cannot subscribe: name a `run`, or give a `filter`"
        raise RpcError("InvalidParams", text, detail={"member": "run"})
    run = await context.run(params.run, params.dir)
    seq = params_seq(params)
    if params.cursor is not None and decode_cursor(params.cursor)[0] != run:
        raise RpcError("InvalidParams", f"cannot read events: the cursor is not of run {run}")
    living = context.supervisor.runs.get(run)
    if living is not None:
        cursor: Cursor | FileCursor = Cursor(living.journal, seq)
        head = living.journal.head
    else:
        path = RunDirectory(context.services.state.run(run)).journal
        cursor = FileCursor(path, seq)
        head = await trio.to_thread.run_sync(cursor.last_seq)
    if seq > head or seq < 0:
        raise RpcError(
            "InvalidParams",
            f"cannot read events: the journal of {run} ends at {head}, not at {seq}",
            detail={"head": head},
        )
    return run, cursor


def _head(context: Context, run: str, cursor: Cursor | FileCursor) -> tuple[int, bool]:
    living = context.supervisor.runs.get(run)
    if living is not None:
        return living.journal.head, living.view.state == "ended"
    return (cursor.head if isinstance(cursor, FileCursor) else cursor.seq), True


async def _pump(
    context: Context,
    name: str,
    run: str,
    cursor: Cursor | FileCursor,
    types: tuple[str, ...],
    scope: trio.CancelScope,
) -> None:
    """Send what the cursor reads, as fast as the client takes it and no faster."""
    head = b'{"jsonrpc":"2.0","method":"event.event","params":{"subscription":"%s",' % name.encode()
    wanted = [f'"type":"{kind}"'.encode() for kind in types]
    with scope:
        while lines := await _next(cursor):
            if wanted:
                shown = [
                    line for line in lines if line.data.startswith(tuple(b"{" + w for w in wanted))
                ]
                if not shown:
                    await context.peer.send_events(_progress(name, run, lines[-1].seq))
                    continue
                lines = shown
            await context.peer.send_events(b"".join([head + line.wire(run) for line in lines]))
        ended = await trio.to_thread.run_sync(_has_end, cursor.path, cursor.seq)
        lives = run in context.supervisor.runs
        reason = "run_ended" if ended else "interrupted" if lives else "given_up"
        at = encode_cursor(run, cursor.seq)
        await context.peer.send_events(_notification("event.end", name, cursor=at, reason=reason))
    context.subscriptions.pop(name, None)


async def _next(cursor: Cursor | FileCursor) -> list[Line]:
    """What comes next; a journal that is damaged there ends there."""
    try:
        return await cursor.next()
    except DamagedError as error:
        log.error("journal_damaged", error=str(error))
        return []


def _has_end(path: Path, seq: int) -> bool:
    """Whether what was read up to ``seq`` is a journal's whole, its run's end included. Blocks."""
    try:
        return last_type_of(path) == v.RUN_ENDED and last_seq_of(path) == seq
    except ValueError:
        return False


def _progress(name: str, run: str, seq: int) -> bytes:
    return _notification("event.progress", name, cursor=encode_cursor(run, seq))


def _notification(method: str, name: str, **members: str) -> bytes:
    return encode_notification(method, {"subscription": name, **members})
