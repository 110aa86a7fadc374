"""``coachman ask``: an agent asks the run that started its own, or whoever watches."""

import os
import time

from ..errors import CoachmanError, ConnectionLostError, DaemonNotRunning
from ..wire import EXIT_OK, EXIT_STATE, EXIT_STILL_RUNNING
from .durations import some_seconds
from .options import Command, Option
from .sources import read_prompt
from .visible import visible
from .wait import PAUSE_S, RETURN_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..client import Client
    from ..results import Asked
    from .console import Console
    from .options import Arguments

COMMAND = Command(
    "ask [QUESTION|@FILE|-] [OPTIONS]",
    "For an agent, inside of its run: ask the run that started this one, or whoever watches, and\n"
    "print the answer. When nobody answered in time the exit code is 11. Only a run with a socket\n"
    "of its own can ask: one that was started with --delegate, and those that it starts.",
    Option("--option", "an answer to choose from; others may be given", "TEXT", repeat=True),
    Option("--timeout", "wait so long; else as long as permissions of the run wait", "DURATION"),
    Option("--prompt-file", "read the question from a file", "FILE"),
    Option("--request-key", "the same key gets the answer to the same question again", "KEY"),
    operands=(0, 1),
    surplus="quote what belongs together",
)


def main(console: "Console", arguments: "Arguments") -> int:
    """Wait for the answer, also over a restart of the daemon, and print it."""
    operand = arguments.operands[0] if arguments.operands else None
    text = read_prompt(console, operand, arguments.text("prompt-file"), verb="ask")
    timeout = arguments.text("timeout")
    # Without a key whoever loses the connection could not tell its question from another.
    key = arguments.text("request-key") or os.urandom(8).hex()
    asked = _asked(
        console,
        text,
        arguments.texts("option"),
        some_seconds(timeout, "ask --timeout") if timeout is not None else None,
        key,
    )
    if console.json:
        console.document(asked)
    elif asked["outcome"] == "answered":
        console.line(visible(asked["answer"], lines=True))
    elif not console.quiet:
        console.note(_unanswered(asked))
    return _EXITS[asked["outcome"]]


_EXITS = {"answered": EXIT_OK, "expired": EXIT_STILL_RUNNING, "withdrawn": EXIT_STATE}


def _unanswered(asked: "Asked") -> str:
    if asked["outcome"] == "expired":
        return "nobody answered in time: decide yourself, and say what you took for granted"
    return "cannot ask on: the turn in which it was asked is over"


def _asked(
    console: "Console", text: str, options: list[str], timeout_s: float | None, key: str
) -> "Asked":
    """What came of the question; a daemon that went away is waited for and asked again."""
    client: Client | None = None
    back_by = 0.0
    while True:
        asked_at = time.monotonic()
        try:
            client = client or console.client()
            return client.run.ask(text, options or None, timeout_s=timeout_s, request_key=key)
        except (ConnectionLostError, DaemonNotRunning) as error:
            if client is None:
                raise
            # One that answered for a while and is gone again is waited for anew.
            if not back_by or time.monotonic() - asked_at > RETURN_S:
                back_by = time.monotonic() + RETURN_S
            if time.monotonic() > back_by:
                raise _lost(error, text, key) from None
            time.sleep(PAUSE_S)


def _lost(error: CoachmanError, text: str, key: str) -> CoachmanError:
    """Nobody came back: the question stands, and how to hear the answer."""
    return CoachmanError(
        f"{error.message}; the question stands, and can be answered once a daemon is back",
        name=error.name,
        hint="ask again with the same key to hear the answer",
        retryable=True,
        next=[["coachman", "ask", "--request-key", key, text]],
    )
