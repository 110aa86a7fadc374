"""Journal files read as they lie on the disk, without a daemon, and followed as they grow.

Growth is looked for ten times a second: the standard library has no inotify, and a look is one
``stat``. What happens to a file that no journal of coachman's does by itself (it gets shorter,
another one takes its name, a line is no event) is told, never passed over in silence.
"""

import json
import os
import time

from ..errors import CoachmanError, UsageError
from .regular_file import open_regular
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from io import FileIO
    from typing import Any

    Event = dict[str, Any]

LOOK_EVERY_S = 0.1
READ_BYTES = 256 * 1024
# The daemon's own limit for a line, and room for others'.
LONGEST_LINE_BYTES = 4 * 1024 * 1024
JOURNAL = "events.ndjson"
JOURNAL_SUFFIX = ".ndjson"


class JournalFile:
    """One journal. ``told`` hears of what befell the file, as a kind and a text."""

    def __init__(self, path: str, told: "Callable[[str, str], None]") -> None:
        self.path = path
        self._told = told
        try:
            self._file: FileIO | None = open_regular(path)
        except OSError as error:
            is_absent = isinstance(error, FileNotFoundError)
            why = "there is no such journal" if is_absent else error.strerror
            raise UsageError(
                f"cannot tail {visible(path)}: {why}",
                hint="name a run, or the path of its events.ndjson",
            ) from None
        self._rest = b""
        self._offset = 0
        self._newest = (0, 0)
        self._is_gone = False
        self.ended = False

    def __repr__(self) -> str:
        return f"<JournalFile {self.path} at {self._offset}>"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def skip(self, seq: int) -> None:
        """Leave out what is not behind ``seq``."""
        self._newest = (seq, 0)

    def read(self) -> "list[Event]":
        """The events that were added since; some of them where there are many."""
        self._look()
        found: list[Event] = []
        if self._file is None:
            return found
        data = self._file.read(READ_BYTES)
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._offset += len(data)
        for line in whole:
            event = self._event(line)
            if event is not None and self._is_new(event):
                found.append(event)
                self.ended = self.ended or event["type"] == "run.ended"
        if len(self._rest) > LONGEST_LINE_BYTES:
            self._rest = b""
            self._told("damaged", f"a line before byte {self._offset} has no end: it is left out")
        return found

    def _opened(self) -> "FileIO | None":
        try:
            return open_regular(self.path)
        except OSError:
            return None

    def _look(self) -> None:
        """Whether the file is still the one that was read, and as long as it was."""
        try:
            now = os.stat(self.path)
        except OSError:
            now = None
        if self._file is None:
            self._file = self._opened() if now is not None else None
            return
        if now is None and not self._is_gone:
            self._told("removed", "the file has no name any more: it is read on as long as it is")
        self._is_gone = now is None
        held = os.fstat(self._file.fileno())
        if held.st_size < self._offset:
            self._begin_again("truncated", f"it was cut to {held.st_size} bytes")
            return
        is_other = now is not None and (now.st_dev, now.st_ino) != (held.st_dev, held.st_ino)
        # What the old file still holds comes first.
        if is_other and self._offset >= held.st_size:
            self._replace()

    def _replace(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = self._opened()
        self._begin_again("rotated", "another file took its place")

    def _begin_again(self, kind: str, what: str) -> None:
        if self._rest:
            what += f", the last {len(self._rest)} bytes before were no whole line"
        self._offset, self._rest = 0, b""
        if self._file is not None:
            self._file.seek(0)
        self._told(
            kind, f"{what}: it is read from its start, behind event {self._newest[0]} or as newer"
        )

    def _event(self, line: bytes) -> "Event | None":
        try:
            event = json.loads(line)
            if isinstance(event, dict) and isinstance(event.get("type"), str):
                return event
        except ValueError:
            pass
        if line.strip():
            self._told("damaged", f"a line before byte {self._offset} is no event: it is left out")
        return None

    def _is_new(self, event: "Event") -> bool:
        """A file that began again may hold what was shown already, or count from 1 anew."""
        seq, ts = _number(event.get("seq")), _number(event.get("ts"))
        known_seq, known_ts = self._newest
        if seq <= known_seq and (ts <= known_ts or not known_ts):
            return False
        self._newest = (seq, ts)
        return True


class Journals:
    """Several journals as one stream, in the order in which things happened as far as known."""

    def __init__(self, files: "Sequence[JournalFile]", *, follow: bool) -> None:
        self._files = list(files)
        self._follow = follow
        self._idle = False
        self.reason: str | None = None

    def __repr__(self) -> str:
        return f"<Journals {self._files}>"

    def buffered(self) -> bool:
        """Whether more events are there already."""
        return not self._idle

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __iter__(self) -> "Iterator[Event]":
        while self.reason is None:
            found = [event for file in self._files for event in file.read()]
            found.sort(key=_when)
            for number, event in enumerate(found, 1):
                self._idle = number == len(found)
                yield event
            if found:
                continue
            if all(file.ended for file in self._files):
                self.reason = "run_ended"
            elif not self._follow:
                self.reason = "caught_up"
            else:
                time.sleep(LOOK_EVERY_S)


def _when(event: "Mapping[str, Any]") -> int:
    """Its place in microseconds; of an event without one, its time."""
    return _number(event.get("g")) or 1000 * _number(event.get("ts"))


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def named_path(word: str) -> str | None:
    """The journal that ``word`` names as a path, a run's directory included; None for a name.

    A word without a slash is one as well where an ``.ndjson`` file is called so.
    """
    if os.sep not in word:
        # No run and no task is likely to be called so, where such a file lies.
        return word if word.endswith(JOURNAL_SUFFIX) and os.path.isfile(word) else None
    return os.path.join(word, JOURNAL) if os.path.isdir(word) else word


def path_of_run(env: "Mapping[str, str]", reference: str, directory: "str | None") -> str:
    """The journal of the run that ``reference`` means, found without a daemon."""
    from ..paths import state_dir
    from .offline import read_page

    rows = read_page(env, {"all": True})["runs"]
    found = _meant(rows, reference, directory)
    if not found:
        raise CoachmanError(
            f"cannot find {visible(reference)!r}: no daemon runs, and no run's files are named so",
            name="NotFound",
            next=[["coachman", "list", "-a"]],
        )
    if len(found) > 1:
        named = ", ".join(f"{row['handle']} ({row.get('task')})" for row in found[:8])
        raise UsageError(f"cannot tell which run {visible(reference)!r} is: {visible(named)}")
    return os.path.join(state_dir(env), "runs", str(found[0]["run"]), JOURNAL)


def _meant(
    rows: "list[dict[str, Any]]", reference: str, directory: "str | None"
) -> "list[dict[str, Any]]":
    """Rows are newest first; a task and ``@`` mean the newest of theirs."""
    from .offline import is_near

    if reference == "@":
        return [row for row in rows if is_near(row.get("dir"), directory)][:1]
    exact = [row for row in rows if reference in (row["run"], row["handle"])]
    tasks = [row for row in rows if row.get("task") == reference]
    if exact or tasks:
        return (exact or tasks)[:1]
    return [
        row
        for row in rows
        if str(row["run"]).startswith(reference) or str(row["handle"]).startswith(reference)
    ]
