"""How `tail` prints: events as they are, for people, or for people who watch many runs."""

import sys

from .progress import Progress
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..classification import Classifier
    from .console import Console

_HANDLE_CHARACTERS = 5
_LABEL_COLUMNS = 9


class Classes:
    """The class of each event, for each run in its own order; None where none is wanted."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self._of_runs: dict[str, Classifier] = {}

    def of(self, event: "Mapping[str, Any]") -> str | None:
        if not self.wanted:
            return None
        from ..classification import Classifier

        run = str(event.get("run"))
        if run not in self._of_runs:
            self._of_runs[run] = Classifier()
        found = self._of_runs[run].classify(event)
        if event.get("type") == "run.ended":
            del self._of_runs[run]
        return found


class Json:
    """Events verbatim, one a line; with a class, as their member ``classify``."""

    def __init__(self, console: "Console", classes: Classes) -> None:
        self._console = console
        self._classes = classes
        self._last_seq = 0

    def show(self, event: "Mapping[str, Any]", *, shown: bool = True) -> None:
        """Print an event; one that is not ``shown`` is heard only."""
        label = self._classes.of(event)
        self._last_seq = event.get("seq", self._last_seq)
        if shown:
            self._console.document(event if label is None else {**event, "classify": label})

    def settle(self) -> None:
        """Nothing is held back."""

    def tell(self, kind: str, text: str) -> None:
        """Something about the stream itself."""
        self._console.document({"type": f"stream.{kind}", "message": text})

    def end(self, why: "Mapping[str, Any]") -> None:
        """The stream's last line."""
        self._console.document({"type": "stream.ended", "last_seq": self._last_seq, **why})


class Text:
    """The events of one run, for people."""

    def __init__(self, console: "Console", is_over: "Callable[[Mapping[str, Any]], bool]") -> None:
        self._console = console
        self._progress = Progress(console, sys.stdout, answerable=False, is_over=is_over)

    def show(self, event: "Mapping[str, Any]", *, shown: bool = True) -> None:
        """Print an event, if it is one that people want to see."""
        if shown:
            self._progress.show(event)

    def settle(self) -> None:
        """Nothing is held back."""

    def tell(self, kind: str, text: str) -> None:
        """Something about the stream itself."""
        self._progress.line(f"  [{kind}: {visible(text)}]")

    def end(self, why: "Mapping[str, Any]") -> None:
        """End what is open."""
        self._progress.finish()


class Lanes:
    """The events of several runs, or with their classes: whole lines, each with what it is of."""

    def __init__(
        self,
        console: "Console",
        classes: Classes,
        is_over: "Callable[[Mapping[str, Any]], bool]",
        *,
        named: bool,
    ) -> None:
        self._console = console
        self._classes = classes
        self._is_over = is_over
        self._named = named
        self._lanes: dict[str, _Lane] = {}

    def show(self, event: "Mapping[str, Any]", *, shown: bool = True) -> None:
        """Print the lines that an event completes."""
        pieces = _by_lines(event) if self._classes.wanted else [event]
        labels = [self._classes.of(piece) for piece in pieces]
        if not shown:
            return
        run = str(event.get("run"))
        if run not in self._lanes:
            handle = visible(run[-_HANDLE_CHARACTERS:]) if self._named else ""
            self._lanes[run] = _Lane(self._console, handle, self._is_over)
        lane = self._lanes[run]
        for piece, label in zip(pieces, labels, strict=True):
            lane.label = label
            lane.progress.show(piece)
        if event.get("type") == "run.ended":
            lane.progress.line(f"  [ended: {visible(event.get('outcome'))}]")
            del self._lanes[run]

    def settle(self) -> None:
        """Print what is held back for its line's end."""
        for lane in self._lanes.values():
            lane.progress.finish()

    def tell(self, kind: str, text: str) -> None:
        """Something about the stream itself."""
        sys.stdout.write(f"  [{kind}: {visible(text)}]\n")
        sys.stdout.flush()

    def end(self, why: "Mapping[str, Any]") -> None:
        """End what is open."""
        self.settle()


def _by_lines(event: "Mapping[str, Any]") -> "list[Mapping[str, Any]]":
    """The event once for each line of its text: a class is that of a line."""
    text = event.get("text")
    if not isinstance(text, str) or "\n" not in text[:-1]:
        return [event]
    *whole, rest = text.split("\n")
    lines = [line + "\n" for line in whole] + ([rest] if rest else [])
    return [{**event, "text": line} for line in lines]


class _Lane:
    """One run's lines, written once each is whole, behind its label.

    ``label`` is that of what is written next. A line that is ended later, by something else
    or by nothing any more, keeps the label of what stands in it.
    """

    def __init__(
        self, console: "Console", handle: str, is_over: "Callable[[Mapping[str, Any]], bool]"
    ) -> None:
        self.label: str | None = None
        out: Any = self  # it writes and flushes
        self.progress = Progress(console, out, answerable=False, is_over=is_over)
        self._handle = handle
        self._line = ""
        self._label_of_line: str | None = None

    def write(self, text: str) -> None:
        first, *more = text.split("\n")
        if first or not self._line:
            self._label_of_line = self.label
        self._line += first
        for line in more:
            self._end_line()
            self._line, self._label_of_line = line, self.label

    def _end_line(self) -> None:
        label = f"{self._label_of_line:<{_LABEL_COLUMNS}} " if self._label_of_line else ""
        handle = f"{self._handle} " if self._handle else ""
        sys.stdout.write(f"{label}{handle}{self._line}\n")

    def flush(self) -> None:
        sys.stdout.flush()
