"""``coachman tail``: the events of a run as they happen, until it ends."""

import sys

from ..errors import CoachmanError, UsageError
from ..wire import EXIT_CANCELLED, EXIT_OK
from .durations import since_ms
from .foreground import final_result
from .options import Command, Option, nearest
from .progress import Progress
from .render import ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..events import EventStream
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "tail [X] [OPTIONS]",
    "Print the events of a run from its first, and follow it while it lives. With --json each\n"
    'event is a line, and {"type": "stream.ended"} the last one.',
    Option("-f --follow", "what it does anyway"),
    Option("--no-follow", "stop at what is there now"),
    Option("--after", "begin behind this sequence number", "N"),
    Option("--since", "leave out what is older: 30m ago, or a time", "TIME"),
    Option("--types", "only these types of events (comma-separated)", "TYPE", repeat=True),
    operands=(0, 1),
)

EVENT_TYPES = (
    "agent.commands",
    "agent.input",
    "agent.message_chunk",
    "agent.noise",
    "agent.notice",
    "agent.plan",
    "agent.session",
    "agent.status",
    "agent.thought_chunk",
    "agent.unknown",
    "attempt.ended",
    "attempt.started",
    "budget.exceeded",
    "check.ended",
    "check.started",
    "deadline.expired",
    "deadline.warned",
    "error",
    "host.suspended",
    "limit.reached",
    "permission.requested",
    "permission.resolved",
    "prompt.dropped",
    "prompt.queued",
    "run.closing",
    "run.ended",
    "run.queued",
    "run.recovered",
    "run.started",
    "run.state",
    "tool.call",
    "tool.call_update",
    "turn.ended",
    "turn.interrupted",
    "turn.recorded",
    "turn.started",
    "usage.updated",
    "user.message_chunk",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Stream events; the exit code does not tell the run's outcome, `wait` does."""
    since = arguments.text("since")
    after = arguments.integer("after")
    if since is not None and after is not None:
        raise UsageError("cannot tail: --since and --after exclude each other")
    if arguments.has("follow") and arguments.has("no-follow"):
        raise UsageError("cannot tail: --follow and --no-follow exclude each other")
    return follow(
        console,
        arguments.operands[0] if arguments.operands else "@",
        after_seq=after,
        since=since_ms(since) if since is not None else None,
        types=_known(arguments.words("types")),
        live=not arguments.has("no-follow"),
    )


def _known(types: list[str] | None) -> list[str] | None:
    """``types`` as they are; an event that does not exist would be waited for in vain."""
    for word in types or ():
        if word not in EVENT_TYPES:
            near = nearest(word, EVENT_TYPES)
            raise UsageError(
                f"cannot tail --types {word!r}: there is no such type of event",
                hint=f"near it: {', '.join(near)}" if near else f"choose {', '.join(EVENT_TYPES)}",
            )
    return types


def follow(
    console: "Console",
    run: str,
    *,
    after_seq: int | None,
    since: int | None = None,
    types: list[str] | None = None,
    live: bool = True,
) -> int:
    """Print the run's events until its end (or, not ``live``, until the newest)."""
    client = console.client()
    # A reference such as @ may mean another run tomorrow; the stream must not.
    details = client.run.get(run, dir=console.directory)
    stop_at = None if live or details["state"] == "ended" else details["last_seq"]
    asking = details["permissions"] == "ask"
    printer = _Json(console) if console.json else _Text(console, answerable=asking)
    stream = client.events(
        details["run"],
        after_seq=after_seq,
        types=types,
        on_lost=None if console.json else lambda: console.note("  [the daemon is gone; waiting]"),
    )
    try:
        with stream:
            if stop_at is None or (after_seq or 0) < stop_at:
                _pump(stream, printer, since or 0, stop_at)
    except KeyboardInterrupt:
        printer.end({"reason": "interrupted", "run": details["run"]})
        return EXIT_CANCELLED
    except CoachmanError as error:
        if not console.json:
            raise
        printer.end({"reason": "error", **error.as_document()})
        return error.exit_code
    printer.end({"reason": stream.reason or "caught_up", "run": details["run"]})
    if not console.json and not console.quiet and stream.reason == "run_ended":
        for line in ending(final_result(client, details["run"])):
            console.note(line)
    return EXIT_OK


def _pump(stream: "EventStream", printer: "_Json | _Text", since: int, stop_at: int | None) -> None:
    for event in stream:
        if event.get("ts", 0) >= since:
            printer.show(event)
        if stop_at is not None and event.get("seq", 0) >= stop_at:
            return


class _Json:
    """Events verbatim, one a line."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._last_seq = 0

    def show(self, event: "dict[str, Any]") -> None:
        self._last_seq = event.get("seq", self._last_seq)
        self._console.document(event)

    def end(self, why: "dict[str, Any]") -> None:
        self._console.document({"type": "stream.ended", "last_seq": self._last_seq, **why})


class _Text:
    """Events for people."""

    def __init__(self, console: "Console", *, answerable: bool) -> None:
        self._progress = Progress(console, sys.stdout, answerable=answerable)

    def show(self, event: "dict[str, Any]") -> None:
        self._progress.show(event)

    def end(self, why: "dict[str, Any]") -> None:
        self._progress.finish()
