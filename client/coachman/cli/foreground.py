"""Staying with a run: its events, its questions, Ctrl-C, and its end.

The run never depends on this process: whatever happens here, it goes on,
unless it is cancelled by request.
"""

import contextlib
import os
import select
import signal
import sys
import time

from ..errors import CoachmanError
from ..wire import EXIT_CANCELLED, EXIT_STILL_RUNNING, exit_of_result
from .inline_questions import Questions
from .progress import Progress
from .render import artifacts, ending
from .turn import Turn, report_turn
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..client import Client
    from ..events import EventStream
    from ..results import Event, RunResult
    from .console import Console

_RESULT_TIMEOUT_S = 30.0
# An agent that was asked and is silent for so long may be waiting for a model.
SILENCE_S = 5.0
# So many are named at the end of a run; `result` names all.
ARTIFACTS = 10
# What tells of the talk with the agent, and not what it says.
_NO_WORD = frozenset({"agent.input", "agent.session", "agent.status", "agent.commands"})
_WORDS = ("agent.", "tool.", "permission.", "turn.ended", "run.")


class Interrupts:
    """SIGINT as something to poll, so that it never falls between two events.

    With ``raising`` set it is a KeyboardInterrupt again: where waiting must end.
    """

    def __init__(self) -> None:
        self.raising = False
        self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        # A shell's background job ignores SIGINT; that stays so.
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._caught)

    def __enter__(self) -> "Interrupts":
        return self

    def __exit__(self, *exc_info: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        os.close(self._read_end)
        os.close(self._write_end)

    def fileno(self) -> int:
        return self._read_end

    def take(self) -> bool:
        """Whether there was one since the last call."""
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self._read_end, 64))
        return False

    def _caught(self, _number: int, _frame: object) -> None:
        if self.raising:
            raise KeyboardInterrupt
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_end, b"!")


class Foreground:
    """One run, watched from its first event to its last."""

    def __init__(
        self,
        console: "Console",
        client: "Client",
        run: str,
        handle: str,
        *,
        asking: bool,
        after_seq: int | None = None,
    ) -> None:
        self._console = console
        self._client = client
        self._run = run
        self._handle = visible(handle)
        self._asking = asking
        self._after_seq = after_seq
        self._turn: Turn | None = None
        self._inline = self._asking and console.interactive
        self._progress = Progress(console, answerable=self._asking)
        self._questions = Questions(client, self._progress)
        self._cancelling = False
        # When to say that the agent is silent; None while there is no reason to.
        self._silent_at: float | None = None

    def __repr__(self) -> str:
        return f"<Foreground {self._run}>"

    def stay(self) -> int:
        """Watch until the run ends, report it, and return the exit code of its outcome."""
        try:
            with Interrupts() as interrupts:
                self._watch(interrupts)
        except KeyboardInterrupt:
            self._progress.finish()
            if self._cancelling:
                return EXIT_CANCELLED
            self._console.note(f"detached: {self._handle} goes on; coachman tail {self._handle}")
            return EXIT_STILL_RUNNING
        except CoachmanError as error:
            error.next = error.next or [["coachman", "tail", self._handle]]
            raise
        self._progress.finish()
        if self._turn is not None and self._turn.is_over:
            said = self._was_said(self._turn.message)
            return report_turn(self._console, self._handle, self._turn, said=said)
        return self._report(final_result(self._client, self._run))

    def stay_for_turn(self, prompt: int) -> int:
        """Watch until the turn of that prompt is over, and return the exit code of its end."""
        self._turn = Turn(self._run, prompt)
        return self.stay()

    def _watch(self, interrupts: Interrupts) -> None:
        def lost() -> None:
            interrupts.raising = True
            self._progress.line("  [the daemon is gone; the run goes on; waiting for its return]")

        with self._client.events(self._run, self._after_seq, on_lost=lost) as stream:
            while stream.reason is None and not (self._turn and self._turn.is_over):
                if interrupts.take():
                    self._interrupted(interrupts)
                event = self._next(stream, interrupts)
                interrupts.raising = self._cancelling
                if event is not None:
                    self._show(event)

    def _next(self, stream: "EventStream", interrupts: Interrupts) -> "Event | None":
        """The next event, or None when something else happened."""
        if stream.buffered():
            return stream.read(0)
        asking = self._questions.pending
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLIN)
        poll.register(interrupts.fileno(), select.POLLIN)
        if asking:
            poll.register(self._questions.fileno(), select.POLLIN)
        ready = {fd for fd, _ in poll.poll(self._patience_ms())}
        if not ready:
            self._silent_at = None
            self._progress.line("  … no word from the agent yet")
        if stream.fileno() in ready:
            return stream.read(0)
        if asking and self._questions.fileno() in ready:
            self._questions.typed()
        return None

    def _patience_ms(self) -> float | None:
        if self._silent_at is None:
            return None
        return max(0.0, self._silent_at - time.monotonic()) * 1000

    def _listen(self, kind: str) -> None:
        """From the first turn to the agent's first word, silence is measured."""
        if kind == "turn.started":
            self._silent_at = time.monotonic() + SILENCE_S
        elif kind.startswith(_WORDS) and kind not in _NO_WORD:
            self._silent_at = None

    def _interrupted(self, interrupts: Interrupts) -> None:
        interrupts.raising = True
        if self._console.interactive and not self._wants_cancel():
            interrupts.raising = False
            return
        self._cancelling = True
        self._progress.line(f"  cancelling {self._handle}; interrupt again to leave at once")
        self._client.run.cancel([self._run])

    def _wants_cancel(self) -> bool:
        self._progress.finish()
        typed = input_line("\n  [c]ancel the run, [d]etach from it, or Enter to stay: ")
        if typed[:1] == "d":
            raise KeyboardInterrupt
        return typed[:1] == "c"

    def _show(self, event: "Event") -> None:
        kind = event["type"]
        if self._turn is not None:
            self._turn.take(event)
        if self._console.json or self._console.quiet:
            if kind == "permission.requested" and self._asking:
                self._console.note(f"{self._handle} needs you: coachman permissions {self._handle}")
            if kind == "question.asked":
                self._console.note(f"{self._handle} asks: coachman permissions {self._handle}")
            return
        self._listen(kind)
        is_answer = kind == "question.answered" and self._console.interactive
        if is_answer or (kind == "permission.resolved" and self._inline):
            self._questions.resolved(event)
            return
        self._progress.show(event)
        if kind == "question.asked" and self._console.interactive:
            self._questions.asked(event)
        if kind == "permission.requested" and self._inline and event.get("options"):
            self._questions.asked(event)

    def _report(self, result: "RunResult") -> int:
        if self._console.json:
            self._console.document(result)
        else:
            self._print_message(result)
            if not self._console.quiet:
                for line in ending(result):
                    self._console.note(line)
                made = artifacts(result)
                for line in made[:ARTIFACTS]:
                    self._console.note(f"  {line}")
                if len(made) > ARTIFACTS:
                    more = f"{len(made) - ARTIFACTS} more artifacts"
                    self._console.note(f"  … {more}: coachman result {self._handle}")
        return exit_of_result(str(result.get("outcome")), result.get("stop_reason"))

    def _print_message(self, result: "RunResult") -> None:
        message = result.get("final_message") or ""
        if message and not self._was_said(message):
            self._console.line(visible(message, lines=True).rstrip("\n"))

    def _was_said(self, message: str) -> bool:
        return self._progress.has_said(message) and _one_place()


def _one_place() -> bool:
    """Whether stdout and stderr end up before the same eyes: a terminal, or one file."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        return True
    return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())


def input_line(prompt: str) -> str:
    """A line from the terminal, asked for on stderr; empty at its end."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace").strip().lower()


def final_result(client: "Client", run: str) -> "RunResult":
    """The result of a run whose end was just told; it may still be on its way to the disk."""
    try:
        return client.run.result(run)
    except CoachmanError as error:
        if error.name != "Conflict":
            raise
    client.run.wait([run], timeout_s=_RESULT_TIMEOUT_S)
    return client.run.result(run)
