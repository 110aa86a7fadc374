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
from .durations import seconds
from .options import Command, Option
from .render import question, state
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
        "--until", "ended, or attention (which the end meets too), or turn", "WHAT", choices=UNTIL
    ),
    Option("--any", "the first one is enough"),
    Option("--timeout", "give up after this long", "DURATION"),
    operands=(1, None),
    missing="name a run, its task, or @",
)
# A daemon that is restarted is back within moments.
RETURN_S = 30.0
_PAUSE_S = 0.1


def main(console: "Console", arguments: "Arguments") -> int:
    """Wait and tell which condition was met."""
    until = arguments.text("until")
    if until is not None and until not in UNTIL:
        raise UsageError(f"cannot wait until {until!r}: choose {', '.join(UNTIL)}")
    timeout = arguments.text("timeout")
    waited = _wait(
        console,
        {
            "runs": arguments.operands,
            "until": until,
            "any": arguments.has("any") or None,
            "dir": console.directory,
        },
        seconds(timeout, "wait --timeout") if timeout is not None else None,
    )
    if console.json:
        console.document(waited)
    elif not console.quiet:
        for run in waited["runs"]:
            console.line(_line(run))
    return exit_code(waited)


def _wait(console: "Console", query: "dict[str, Any]", timeout_s: float | None) -> "Waited":
    """`run.wait`, asked again when the daemon restarts meanwhile."""
    client = console.client()
    ends = None if timeout_s is None else time.monotonic() + timeout_s
    back_by = None
    while True:
        left = None if ends is None else max(0.0, ends - time.monotonic())
        try:
            return client.run.wait(timeout_s=left, **query)
        except (ConnectionLostError, DaemonNotRunning) as error:
            now = time.monotonic()
            if back_by is None or isinstance(error, ConnectionLostError):
                back_by = now + RETURN_S
            if now > back_by:
                raise
            time.sleep(_PAUSE_S)


def _line(run: "WaitedRun") -> str:
    handle = visible(run["handle"])
    attention = run.get("attention")
    if attention:
        return f"{handle}  {state(run)}: {question(attention)}  (coachman answer {handle} …)"
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
