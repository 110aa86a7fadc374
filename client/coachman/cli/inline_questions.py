"""The inline question: asked on the terminal, gone when someone else answers it."""

import contextlib
import os
import sys

from ..errors import CoachmanError, UsageError
from .asked import answer_text, reply_text
from .choices import choose, told, words
from .console import failure_text
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..client import Client
    from ..results import Event
    from .progress import Progress

_LINE_BYTES = 4096


class Questions:
    """What one run asks that waits for this terminal, oldest first: permissions, and questions.

    Nothing here waits: the owner polls ``fileno`` while ``pending`` and calls
    ``typed`` when a line is there.
    """

    def __init__(self, client: "Client", progress: "Progress") -> None:
        self._client = client
        self._progress = progress
        self._waiting: list[Event] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"<Questions {[event['request'] for event in self._waiting]}>"

    @property
    def pending(self) -> bool:
        """Whether an answer from the terminal would mean something."""
        return bool(self._waiting) and not self._closed

    def fileno(self) -> int:
        return sys.stdin.fileno()

    def asked(self, event: "Event") -> None:
        """A request came; the progress has shown it already."""
        self._waiting.append(event)
        if len(self._waiting) == 1:
            self._prompt()

    def resolved(self, event: "Event") -> None:
        """A request is settled, by whomever: its question goes away with their name."""
        was_first = bool(self._waiting) and self._waiting[0]["request"] == event["request"]
        self._waiting = [e for e in self._waiting if e["request"] != event["request"]]
        if was_first:
            _forget_typed()
        text = reply_text(event) if event["type"] == "question.answered" else answer_text(event)
        self._progress.line(f"  = {text}")
        if was_first and self.pending:
            self._prompt()

    def typed(self) -> None:
        """Read the line that is there and answer with it."""
        data = os.read(self.fileno(), _LINE_BYTES)
        self._progress.line_typed()
        if not data:
            self._closed = True
            self._progress.line("  (left open: answer with `coachman answer`)")
            return
        word = data.decode("utf-8", "replace").strip()
        if word:
            self._answer(self._waiting[0], word)
        elif self.pending:
            self._prompt()

    def _answer(self, request: "Event", word: str) -> None:
        try:
            if _in_words(request):
                self._client.run.answer(request["request"], told(request, word), run=request["run"])
                return
            choice: dict[str, Any] = dict(choose(request, word))
            self._client.permission.answer(request["request"], run=request["run"], **choice)
        except UsageError as error:
            self._progress.line(failure_text(error))
            self._prompt()
        except CoachmanError as error:
            # Most often someone was quicker; the event that says so is on its way.
            self._progress.line(failure_text(error))

    def _prompt(self) -> None:
        request = self._waiting[0]
        if _in_words(request):
            self._progress.prompt(f"    your answer [{visible(request['request'])}] ")
            return
        choices = [word for word in words(request) if not word.isdigit()]
        typed = f"{', '.join(choices)} or a number" if choices else "a number"
        self._progress.prompt(f"    {typed} [{visible(request['request'])}] ")


def _in_words(request: "Event") -> bool:
    return str(request["type"]) == "question.asked"


def _forget_typed() -> None:
    """Throw away what was typed for a question that is gone."""
    import termios

    with contextlib.suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
