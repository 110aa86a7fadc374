"""``coachman wait``: until runs end, or need attention."""

import time

from ..errors import ConnectionLostError, DaemonNotRunning, UsageError
from ..wire import (
    EXIT_ATTENTION,
    EXIT_FAILED,
    EXIT_OF_TURN,
    EXIT_OK,
    EXIT_STILL_RUNNING,
    exit_of_result,
)
from .choices import takes
from .durations import seconds
from .options import Command, Option
from .render import question, state
from .selecting import SELECTORS, selected
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..results import Waited, WaitedRun
    from .console import Console
    from .options import Arguments

UNTIL = ("ended", "attention", "turn")
COMMAND = Command(
    "wait X… [OPTIONS]",
    "Wait until all runs have ended. The exit code is their outcome (the common one, else 1),\n"
    "10 when a run needs attention, 11 when --timeout ran out first. With --until turn it is how\n"
    "that turn ended.",
    Option(
        "--until",
        "ended, attention, or turn (its next end); the run's end meets each",
        "WHAT",
        choices=UNTIL,
    ),
    Option("--any", "the first one is enough"),
    Option("--timeout", "give up after this long", "DURATION"),
    *SELECTORS,
    operands=(0, None),
    missing="name a run, its task, or @",
)
# A daemon that is restarted is back within moments.
RETURN_S = 30.0
PAUSE_S = 0.1


def main(console: "Console", arguments: "Arguments") -> int:
    """Wait and tell which condition was met."""
    until = arguments.text("until")
    if until is not None and until not in UNTIL:
        raise UsageError(f"cannot wait until {until!r}: choose {', '.join(UNTIL)}")
    timeout = arguments.text("timeout")
    query = {
        "runs": selected(console, arguments, COMMAND),
        "until": until,
        "any": arguments.has("any") or None,
        "dir": console.directory,
    }
    limit_s = seconds(timeout, "wait --timeout") if timeout is not None else None
    waited = _Waiting(console, query).until_met(limit_s)
    if console.json:
        console.document(waited)
    elif not console.quiet:
        for run in waited["runs"]:
            console.line(_line(run))
    return exit_code(waited)


class _Waiting:
    """`run.wait`, asked again when the daemon restarts, and once all that is left has parked."""

    def __init__(self, console: "Console", query: "dict[str, Any]") -> None:
        self._console = console
        self._client = console.client()
        self._query = query
        self._back_by: float | None = None

    def __repr__(self) -> str:
        return f"<_Waiting for {self._query['runs']}>"

    def until_met(self, timeout_s: float | None) -> "Waited":
        """What was met, or that ``timeout_s`` ran out."""
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        # Turns are counted from the question on: it must not be put twice.
        pinned = idle_told = self._query["until"] == "turn"
        while True:
            left = None if ends is None else max(0.0, ends - time.monotonic())
            waited = self._ask(left if pinned else 0.0, idle=not idle_told)
            if waited is None:
                continue
            # A reference such as @ may mean another run in the next moment.
            self._query["runs"] = [run["run"] for run in waited["runs"]]
            if waited["met"] == "idle":
                self._point_out(waited["runs"])
                idle_told = True
            elif pinned or waited["met"] != "timeout":
                return waited
            pinned = True

    def _ask(self, timeout_s: float | None, *, idle: bool) -> "Waited | None":
        """One answer; None where the daemon is gone for the moment."""
        query = {**self._query, "timeout_s": timeout_s, "idle": idle or None}
        try:
            waited: Waited = self._client.run.wait(**query)
        except (ConnectionLostError, DaemonNotRunning):
            if self._back_by is None:
                self._back_by = time.monotonic() + RETURN_S
                self._note("  [the daemon is gone; the run goes on; waiting for its return]")
            if time.monotonic() > self._back_by:
                raise
            time.sleep(PAUSE_S)
            return None
        self._back_by = None
        return waited

    def _point_out(self, runs: "list[WaitedRun]") -> None:
        """Say of what parked that it stays so."""
        for run in runs:
            if run["state"] == "parked":
                handle = visible(run["handle"])
                self._note(
                    f"{handle}  parked: nothing happens until it is prompted or closed:"
                    f" coachman prompt {handle} …; coachman close {handle}"
                )

    def _note(self, text: str) -> None:
        if not self._console.quiet:
            self._console.note(text)


def _line(run: "WaitedRun") -> str:
    handle = visible(run["handle"])
    attention = run.get("attention")
    if run.get("met") == "turn":
        return f"{handle}  turn {run.get('turn')} ended: {visible(run.get('turn_stop_reason'))}"
    if attention:
        told = f"{handle}  {state(run)}: {question(attention)}"
        return told + (f"  (coachman answer {handle} …)" if takes(attention) else "")
    now = run.get("now")
    return f"{handle}  {state(run)}" + (f": {visible(now)}" if now else "")


def exit_code(waited: "Waited") -> int:
    """One code for all: attention, still running, or what the outcomes share."""
    runs = waited["runs"]
    if waited["met"] == "timeout":
        return EXIT_STILL_RUNNING
    if waited["met"] == "attention" or any(run.get("met") == "attention" for run in runs):
        return EXIT_ATTENTION
    codes = {_code(run) for run in runs if run.get("outcome") or run.get("met") == "turn"}
    if len(codes) == 1:
        return codes.pop()
    return EXIT_FAILED if codes else EXIT_OK


def _code(run: "WaitedRun") -> int:
    if run.get("outcome"):
        return exit_of_result(str(run["outcome"]), run.get("stop_reason"))
    return EXIT_OF_TURN.get(str(run.get("turn_stop_reason")), EXIT_OK)
