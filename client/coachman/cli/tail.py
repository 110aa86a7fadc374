"""``coachman tail``: events as they happen, of one run, of several, or of all that are chosen."""

import sys
import time

from ..errors import CoachmanError, DaemonNotRunning, UsageError
from ..wire import EXIT_CANCELLED, EXIT_OK
from .cursor_file import CursorFile
from .durations import since_ms
from .foreground import final_result
from .journals import JournalFile, Journals, named_path, path_of_run
from .labels import labels_of
from .options import Command, Option, nearest
from .render import ending
from .tail_print import Classes, Json, Lanes, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..events import EventStream
    from .console import Console
    from .options import Arguments

    Printer = Json | Text | Lanes
    IsOver = Callable[[Mapping[str, Any]], bool]

COMMAND = Command(
    "tail [X…] [OPTIONS]",
    "Print the events of a run from its first, and follow it while it lives; of several runs,\n"
    "or of all that are chosen, as one stream in the order of all events. X is a run, or the path\n"
    "of a journal file, which needs no daemon. With --json each event is a line, and\n"
    '{"type": "stream.ended"} the last one.',
    Option("-f --follow", "what it does anyway"),
    Option("--no-follow", "stop at what is there now"),
    Option("--after", "begin behind this sequence number of the run", "N"),
    Option("--since", "leave out what is older: 30m ago, or a time", "TIME"),
    Option("--cursor", "go on where FILE says, and keep it up to what was printed", "FILE"),
    Option("--classify", "say of each whether it is a milestone, a finding or activity"),
    Option("--types", "only these types of events (comma-separated)", "TYPE", repeat=True),
    Option("-a --all", "all runs, those that begin later included"),
    Option("-l --label", "only runs with this label", "KEY=VALUE", repeat=True),
    Option("--batch", "only runs of this batch", "NAME"),
    Option("-t --task", "only runs of this task", "TASK"),
    Option("--agent", "only runs of this agent", "AGENT"),
    Option("--here", "only runs of this directory's repository"),
    operands=(0, None),
)
# How far back a list goes by itself, and so does a stream that is not followed.
RECENT = "12h"


def main(console: "Console", arguments: "Arguments") -> int:
    """Stream events; the exit code does not tell the run's outcome, `wait` does."""
    if arguments.has("follow") and arguments.has("no-follow"):
        raise UsageError("cannot tail: --follow and --no-follow exclude each other")
    since = arguments.text("since")
    after = arguments.integer("after")
    if since is not None and after is not None:
        raise UsageError("cannot tail: --since and --after exclude each other")
    tail = Tail(
        console,
        live=not arguments.has("no-follow"),
        after_seq=after,
        since=since_ms(since) if since is not None else None,
        types=_known(arguments.words("types")),
        classify=arguments.has("classify"),
        cursor_file=arguments.text("cursor"),
    )
    facts = _facts(console, arguments)
    names = arguments.operands
    if names and facts is not None:
        raise UsageError("cannot tail: name runs, or choose them by options, not both")
    if after is not None and (facts is not None or len(names) > 1):
        raise UsageError("cannot tail --after: sequence numbers are those of one run")
    paths = [path for name in names if (path := named_path(name)) is not None]
    if paths and len(paths) < len(names):
        raise UsageError("cannot tail: name runs, or paths, not both")
    if paths:
        return tail.files(paths, {"paths": paths})
    try:
        console.client()
    except DaemonNotRunning:
        if console.socket or console.env.get("COACHMAN_SOCKET"):
            raise
        return tail.offline(names or ["@"], facts)
    if facts is not None or len(names) > 1:
        return tail.many(names, facts or {})
    return tail.one(names[0] if names else "@")


def _facts(console: "Console", arguments: "Arguments") -> "dict[str, Any] | None":
    """What chooses runs; None where nothing does."""
    facts = {
        "labels": labels_of(arguments, "tail"),
        "task": arguments.text("task"),
        "agent": arguments.text("agent"),
        "here": console.directory if arguments.has("here") else None,
    }
    chosen = {name: fact for name, fact in facts.items() if fact is not None}
    return chosen if chosen or arguments.has("all") else None


def _known(types: list[str] | None) -> list[str] | None:
    """``types`` as they are; an event that does not exist would be waited for in vain."""
    if types is None:
        return None
    # Only who names types pays for this import.
    from ..event_types import EVENT_TYPES

    known = sorted(EVENT_TYPES)
    for word in types:
        if word not in known:
            near = nearest(word, known)
            raise UsageError(
                f"cannot tail --types {word!r}: there is no such type of event",
                hint=f"near it: {', '.join(near)}" if near else f"choose {', '.join(known)}",
            )
    return types


def follow(console: "Console", run: str) -> int:
    """Print the run's events until its end."""
    return Tail(console).one(run)


class Tail:
    """One stream, from wherever it comes, printed to its end."""

    def __init__(
        self,
        console: "Console",
        *,
        live: bool = True,
        after_seq: int | None = None,
        since: int | None = None,
        types: list[str] | None = None,
        classify: bool = False,
        cursor_file: str | None = None,
    ) -> None:
        self._console = console
        self._live = live
        self._after_seq = after_seq
        self._since = since
        self._types = types
        self._classes = Classes(classify)
        self._path = cursor_file
        self._saved: CursorFile | None = None
        self._stale = False

    def __repr__(self) -> str:
        return f"<Tail after={self._after_seq} since={self._since} {self._path!r}>"

    # --- what is followed ---

    def one(self, run: str) -> int:
        """A run, until its end (or, not ``live``, until the newest)."""
        console = self._console
        client = console.client()
        # A reference such as @ may mean another run tomorrow; the stream must not.
        details = client.run.get(run, dir=console.directory)
        run, ended = details["run"], details["state"] == "ended"
        stop_at = None if self._live or ended else details["last_seq"]
        printer = self._printer(self._is_over(run))
        after = self._resumed({"run": run}).get("seq", self._after_seq)
        if stop_at is not None and (after or 0) >= stop_at:
            printer.end({"reason": "caught_up", "run": run})
            return EXIT_OK
        stream = client.events(run, after_seq=after, types=self._heard(), on_lost=self._on_lost())
        code = self._print(
            stream, printer, {"run": run}, lambda event: {"seq": event["seq"]}, stop_at
        )
        if not console.json and not console.quiet and stream.reason == "run_ended":
            for line in ending(final_result(client, run)):
                console.note(line)
        return code

    def many(self, names: "Sequence[str]", facts: "Mapping[str, Any]") -> int:
        """Several runs, or all that have some facts, as one stream."""
        console = self._console
        client = console.client()
        runs = [client.run.get(name, dir=console.directory)["run"] for name in names]
        if self._since is None and not self._live and not runs:
            self._since = since_ms(RECENT)
        at = self._resumed({"runs": runs} if runs else {"facts": dict(facts)})
        stream = client.follow(
            runs or None,
            **facts,
            types=self._heard(),
            since=self._since,
            cursor=at.get("cursor"),
            until_now=not self._live,
            on_lost=self._on_lost(),
        )
        printer = self._printer(self._is_over(), many=True)
        return self._print(stream, printer, {}, lambda _event: {"cursor": stream.cursor})

    def offline(self, names: "Sequence[str]", facts: "Mapping[str, Any] | None") -> int:
        """The same without a daemon: none can begin a run, so those that there are are all."""
        self._stale = True
        console = self._console
        if not console.json:
            console.note("no daemon is running: read from the journals as they lie on the disk")
        if facts is not None:
            from .offline import chosen_runs

            names = chosen_runs(console.env, facts)
        paths = [path_of_run(console.env, name, console.directory) for name in names]
        of: dict[str, Any] = (
            {"facts": dict(facts)} if facts is not None else {"runs": _run_ids(paths)}
        )
        if facts is None and len(paths) == 1:
            of = {"run": _run_ids(paths)[0]}
        code = self.files(paths, of)
        if "run" in of and code == EXIT_OK and not console.json and not console.quiet:
            from .offline import result_of

            for line in ending(result) if (result := result_of(console.env, of["run"])) else ():
                console.note(line)
        return code

    def files(self, paths: "Sequence[str]", of: "dict[str, Any]") -> int:
        """Journal files, as they grow."""
        # Whether somebody waits for an answer stands in no file.
        printer = self._printer(lambda _event: True, many=len(paths) > 1)
        at = self._resumed(of)
        if "cursor" in at:
            raise DaemonNotRunning(
                "cannot tail --cursor: this one was saved with a daemon and goes on with one only",
                next=[["coachman", "daemon", "start"]],
            )
        seqs: dict[str, int] = dict(at.get("seqs") or {})
        files = [JournalFile(path, printer.tell) for path in paths]
        for path, file in zip(paths, files, strict=True):
            file.skip(max(seqs.get(path, 0), at.get("seq", 0), self._after_seq or 0))
        runs: dict[str, str] = {}

        def place(event: "Mapping[str, Any]") -> "dict[str, Any]":
            if len(paths) == 1:
                return {"seq": event["seq"]}
            run = str(event.get("run"))
            if run not in runs:
                runs[run] = next((path for path in paths if run in path), paths[0])
            seqs[runs[run]] = event["seq"]
            return {"seqs": dict(seqs)}

        journals = Journals(files, follow=self._live)
        return self._print(journals, printer, {}, place)

    # --- printing ---

    def _printer(self, is_over: "IsOver", *, many: bool = False) -> "Printer":
        if self._console.json:
            return Json(self._console, self._classes)
        if many or self._classes.wanted:
            return Lanes(self._console, self._classes, is_over, named=many)
        return Text(self._console, is_over)

    def _is_over(self, run: str | None = None) -> "IsOver":
        """What tells of a question that was asked before now whether it is settled since."""
        if self._console.json:
            return lambda _event: False
        now_ms = time.time() * 1000
        page = self._console.client().permission.list(run)
        # A daemon of an earlier version knows no questions in words.
        rows = [*page["permissions"], *page.get("questions", ())]
        waiting = {(row["run"], row["request"]) for row in rows}

        def is_over(event: "Mapping[str, Any]") -> bool:
            asked = (event.get("run"), event.get("request"))
            return bool(event.get("ts", 0) <= now_ms) and asked not in waiting

        return is_over

    def _on_lost(self) -> "Callable[[], None] | None":
        if self._console.json:
            return None
        return lambda: self._console.note("  [the daemon is gone; waiting]")

    def _heard(self) -> list[str] | None:
        """A class may depend on events that are not shown."""
        return None if self._classes.wanted else self._types

    def _resumed(self, of: "dict[str, Any]") -> "dict[str, Any]":
        if self._path is None:
            return {}
        self._saved = CursorFile(self._path, of)
        return self._saved.at

    def _print(
        self,
        stream: "EventStream | Journals",
        printer: "Printer",
        about: "Mapping[str, Any]",
        place: "Callable[[Mapping[str, Any]], dict[str, Any]]",
        stop_at: int | None = None,
    ) -> int:
        ends = {**about, **({"stale": True} if self._stale else {})}
        try:
            for event in stream:
                self._show(printer, event)
                if self._saved is not None:
                    self._save(printer, place(event), idle=not stream.buffered())
                if stop_at is not None and event.get("seq", 0) >= stop_at:
                    break
        except KeyboardInterrupt:
            printer.end({"reason": "interrupted", **ends})
            return EXIT_CANCELLED
        except CoachmanError as error:
            if not self._console.json:
                raise
            printer.end({"reason": "error", **ends, **error.as_document()})
            return error.exit_code
        finally:
            self._close(stream)
        printer.end({"reason": stream.reason or "caught_up", **ends})
        return EXIT_OK

    def _show(self, printer: "Printer", event: "Mapping[str, Any]") -> None:
        is_wanted = self._types is None or event.get("type") in self._types
        printer.show(event, shown=is_wanted and event.get("ts", 0) >= (self._since or 0))

    def _save(self, printer: "Printer", at: "dict[str, Any]", *, idle: bool) -> None:
        """What is printed comes first: nothing is passed over that was not."""
        assert self._saved is not None
        if idle or self._saved.is_due:
            printer.settle()
            sys.stdout.flush()
        self._saved.printed(at, idle=idle)

    def _close(self, stream: "EventStream | Journals") -> None:
        stream.close()
        if self._saved is not None:
            sys.stdout.flush()
            self._saved.save()


def _run_ids(paths: "Iterable[str]") -> list[str]:
    return [path.split("/")[-2] for path in paths]
