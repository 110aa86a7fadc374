"""What a verb talks to: the caller's terminal, environment and daemon."""

import json
import os
import sys

from ..client import Client, connect
from ..errors import CoachmanError, DaemonNotRunning, UsageError
from .options import Arguments
from .visible import visible, visible_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CLIENT_NAME = "coachman"
HANDLE_CHARACTERS = 5
# A run's id is its date, its time of day and its handle: 261129-220417-k7q3x.
_ID_DIGITS = 6
_COLORS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Console:
    """Output by the machine rules, and the client on demand.

    ``line`` is the answer (stdout), ``note`` is about it (stderr), ``document``
    is the one JSON document of a ``--json`` command.
    """

    def __init__(self, arguments: Arguments, env: "Mapping[str, str]") -> None:
        self.env = env
        self.json = arguments.has("json")
        self.quiet = arguments.has("quiet")
        self.no_input = arguments.has("no-input") or bool(env.get("COACHMAN_NO_INPUT"))
        self.socket = arguments.text("socket")
        self._color = arguments.text("color") or "auto"
        self._client: Client | None = None
        if self._color not in ("auto", "always", "never"):
            raise UsageError(f"cannot color {self._color!r}: choose auto, always or never")
        if (directory := arguments.text("directory")) is not None:
            _enter(directory)

    @property
    def is_run(self) -> bool:
        """Whether a run asks, inside its sandbox and over its own socket."""
        return bool(self.env.get("COACHMAN_DELEGATE"))

    @property
    def directory(self) -> str | None:
        """The caller's directory, which gives ``@`` and relative paths their meaning.

        That of a run is none of the host's.
        """
        if self.is_run:
            return None
        try:
            return os.getcwd()
        except FileNotFoundError:
            raise UsageError(
                "cannot tell the current directory: it was removed", hint="cd to one that exists"
            ) from None

    @property
    def interactive(self) -> bool:
        """Whether a person is there to be asked."""
        return not self.no_input and not self.json and sys.stdin.isatty() and sys.stderr.isatty()

    def width(self) -> int | None:
        """Columns of the terminal on stdout; None where there is none."""
        if not sys.stdout.isatty():
            return None
        return os.get_terminal_size(sys.stdout.fileno()).columns or None

    def client(self, *, autostart: bool = False, introduced: bool = False) -> Client:
        """The connected client; with ``autostart`` a missing daemon is started.

        ``introduced`` is for verbs that decide something: others see who did.
        """
        if self._client is None:
            name = CLIENT_NAME if introduced else None
            try:
                self._client = connect(self.socket, name=name)
            except DaemonNotRunning as error:
                if not autostart:
                    raise
                self._client = connect(self.socket, autostart=True, name=name)
                self._tell_of_death(error)
        return self._client

    def answer(self, method: str, params: "Mapping[str, object]") -> "Any":
        """What the daemon answers; where none runs, what its program does, which starts nothing.

        For methods that only read what is configured and installed.
        """
        try:
            return self.client().call(method, {k: v for k, v in params.items() if v is not None})
        except DaemonNotRunning:
            if self.socket or self.env.get("COACHMAN_SOCKET"):
                raise
            from ..alone import ask

            return ask(self.env, method, params)

    def _tell_of_death(self, error: DaemonNotRunning) -> None:
        """Say why another daemon had to be started, where nobody wanted the last one to end."""
        end = error.detail.get("last_end") if isinstance(error.detail, dict) else None
        if end and not end["orderly"] and not self.quiet:
            self.note(f"  [another daemon was started: {visible(end['message'])}]")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def line(self, text: str = "") -> None:
        """A line of the answer; the text must be visible already."""
        sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """A line beside the answer, for people."""
        sys.stdout.flush()
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def document(self, document: object) -> None:
        """One JSON document on one line."""
        text = json.dumps(document, ensure_ascii=False, separators=(", ", ": "))
        sys.stdout.write(visible_json(text) + "\n")
        sys.stdout.flush()

    def paint(self, text: str, color: str, *, stderr: bool = False) -> str:
        """``text`` in one of coachman's colours where the terminal takes them."""
        stream = sys.stderr if stderr else sys.stdout
        if self._color == "never" or (self._color == "auto" and not self._colorful(stream)):
            return text
        return f"\x1b[{_COLORS[color]}m{text}\x1b[0m"

    def _colorful(self, stream: "object") -> bool:
        isatty = getattr(stream, "isatty", bool)
        return not self.env.get("NO_COLOR") and self.env.get("TERM") != "dumb" and isatty()

    def fail(self, error: CoachmanError) -> int:
        """Report a failure by the machine rules; returns the exit code."""
        if self.json:
            self.document(error.as_document())
        else:
            self.note(failure_text(error))
        return error.exit_code


def failure_text(error: CoachmanError) -> str:
    """A failure for people: what, why, and what to do next."""
    lines = [visible(error.message)]
    if error.hint:
        lines.append(f"  {visible(error.hint)}")
    if error.retry_after_s is not None:
        lines.append(f"  try again in {error.retry_after_s:g} s")
    if error.next:
        steps = [command([_handle(word) for word in argv]) for argv in error.next]
        lines.append("  next: " + "; ".join(steps))
    return "\n".join(lines)


def _handle(word: str) -> str:
    """A run's id as its handle, which is what people read everywhere else; other words as is."""
    date, _, rest = word.partition("-")
    clock, _, handle = rest.partition("-")
    is_run = date.isdigit() and clock.isdigit() and len(date) == len(clock) == _ID_DIGITS
    return handle if is_run and len(handle) == HANDLE_CHARACTERS else word


def command(argv: "list[str]") -> str:
    """An argv as a line that a shell reads back."""
    return " ".join(quoted(word) for word in argv)


def quoted(word: str) -> str:
    """A word as a shell reads it, with nothing hidden in it."""
    shown = visible(word)
    plain = shown and all(c.isalnum() or c in "-_./:=@,+%" for c in shown) and shown.isascii()
    return shown if plain else "'" + shown.replace("'", "'\\''") + "'"


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise UsageError(
            f"cannot enter {visible(directory)}: {os.strerror(error.errno or 0)}"
        ) from None
