"""Tells a program of the user's what happened to runs: in batches, one at a time, never in the way.

What it does has no effect on any run, and what it cannot be told any more is only counted.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import structlog
import trio

from ...config import Notify
from ...journal import vocabulary as v
from ...permissions import hook
from ...permissions.hook import HookError
from ...permissions.programs import Program, Programs, UntrustedError
from ..facts.clock import epoch_ms
from ..facts.record import Record
from ..reading.view import View
from ..tidying.findings import Finding

if TYPE_CHECKING:
    from ..facts.members import Permission, Question

log = structlog.get_logger("notify")
MOST_WAITING = 100
# What comes in so short a time is told at once.
GATHER_S = 0.5
LIMIT_S = 30.0
NEEDS_A_PERSON = frozenset({"permission", "question", "credentials"})
TEXT_CHARACTERS = 200

Event = Mapping[str, Any]


class Notices:
    """What waits to be told, as far as ``wanted`` says."""

    def __init__(self, wanted: Notify, environment: Mapping[str, str]) -> None:
        self._wanted = wanted
        self._environment = hook.lent(environment)
        self._program: Program | None = None
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MOST_WAITING)
        self._dropped = 0
        # Why nobody is told, or was not the last time.
        self._fault: str | None = None
        self._wake = trio.Event()

    def __repr__(self) -> str:
        return f"<Notices on {', '.join(self._wanted.on)}: {len(self._waiting)} wait>"

    def open(self, programs: Programs, trees: Sequence[str]) -> None:
        """Open the program; one that cannot be trusted is named in the log. Blocks."""
        if self._wanted.command:
            try:
                self._program = programs.pin(self._wanted.command[0], trees)
            except UntrustedError as error:
                log.error("notify_unusable", program=self._wanted.command[0], reason=str(error))
                self._fault = str(error)

    def findings(self) -> list[Finding]:
        """The program, where nobody is told by it."""
        if self._fault is None:
            return []
        again = "put it right, then: coachman daemon restart"
        remedy = "look into it; the next notice tries again" if self._program else again
        why = f"the program of [notify] does not tell anybody: {self._fault}"
        return [Finding("notify", self._wanted.command[0], why, remedy)]

    def saw(self, record: Record, view: View, events: Sequence[Event]) -> None:
        """Look through new lines of a run's journal."""
        for event in events if self._program else ():
            if (on := _kind(event)) is not None:
                self.put(on, _of_run(on, record, view))

    def put(self, on: str, notice: Mapping[str, Any]) -> None:
        """Something happened; whoever wants to know is told soon."""
        if self._program is None or on not in self._wanted.on:
            return
        self._dropped += len(self._waiting) == MOST_WAITING
        self._waiting.append({"on": on, "at": epoch_ms(), **notice})
        self._wake.set()

    async def keep(self) -> None:
        """Tell, for as long as the daemon runs."""
        while self._program is not None:
            await self._wake.wait()
            await trio.sleep(GATHER_S)
            self._wake = trio.Event()
            batch, dropped = list(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
            await self._tell(self._program, batch, dropped)

    async def _tell(self, program: Program, batch: list[dict[str, Any]], dropped: int) -> None:
        document = {"format": 1, "notices": batch, "dropped": dropped}
        names = {
            "COACHMAN_NOTIFY_ON": ",".join(dict.fromkeys(notice["on"] for notice in batch)),
            "COACHMAN_NOTIFY_COUNT": str(len(batch)),
            "COACHMAN_NOTIFY_TEXT": str(batch[-1]["text"]),
        }
        environment = {**self._environment, **names}
        arguments = self._wanted.command[1:]
        try:
            await hook.ask(program, hook.document(document), environment, arguments, LIMIT_S)
        except HookError as error:
            if self._fault is None:
                log.error("notify_failed", program=program.path, reason=str(error))
            self._fault = str(error)
        else:
            self._fault = None


def _kind(event: Event) -> str | None:
    match event["type"]:
        case v.RUN_ENDED:
            return "ended"
        case v.LIMIT_REACHED:
            return "limited"
        case v.RUN_STATE if event["to"] == "waiting" and event.get("reason") in NEEDS_A_PERSON:
            return "attention"
    return None


def _of_run(on: str, record: Record, view: View) -> dict[str, Any]:
    asks: list[Permission | Question] = [*view.pending.values(), *view.questions.values()]
    asked = next(iter(asks), None) if on == "attention" else None
    what = {
        "attention": f"needs you: {asked.question if asked else view.reason}",
        "ended": f"{view.outcome}",
        "limited": "reached a limit of its provider",
    }[on]
    names = ("run", "handle", "task", "agent", "title", "dir")
    return {
        **{name: getattr(record, name) for name in names},
        "labels": dict(record.labels),
        "state": view.state,
        "outcome": view.outcome,
        "attention": asked.public() if asked else None,
        "text": _plain(f"{record.handle} {record.task} {what}"),
    }


def _plain(text: str) -> str:
    """One line in which nothing acts on a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)[:TEXT_CHARACTERS]
