"""``tail --cursor FILE``: where a tail stands, kept in a file behind what it printed.

Each event is printed at least once: the file is replaced after the output was flushed, so a tail
that was killed in between prints again what came since, 64 events at most.
"""

import json
import os

from ..errors import CoachmanError, UsageError
from ..wire import EXIT_STORAGE
from .regular_file import read_regular
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAVE_EVENTS = 64
FORMAT = 1
MAX_BYTES = 64 * 1024
_OWN = "give each stream a file of its own, or remove this one to begin anew"
_ELSEWHERE = "the file is replaced whole at each save: make its directory, or name another"


class CursorFile:
    """The file at ``path``; ``of`` says what is followed, and must be what it was before."""

    def __init__(self, path: str, of: "dict[str, Any]") -> None:
        if not path:
            raise UsageError("cannot tail --cursor '': name a file")
        self._path = os.path.abspath(path)
        self._of = of
        self._unsaved = 0
        self._saved: dict[str, Any] = {}
        self.at = self._read()
        if not os.access(os.path.dirname(self._path), os.W_OK | os.X_OK):
            raise self._error("its directory is missing or cannot be written", _ELSEWHERE)

    def __repr__(self) -> str:
        return f"<CursorFile {self._path} {self.at}>"

    def _read(self) -> "dict[str, Any]":
        """Where to go on; empty where there is no file yet. Raises UsageError."""
        try:
            found = json.loads(read_regular(self._path, MAX_BYTES) or b"{}")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._error(error.strerror or "it cannot be read") from None
        except (ValueError, RecursionError):
            raise self._error("it holds no cursor") from None
        if not found:
            return {}
        at = found.get("at") if isinstance(found, dict) and found.get("format") == FORMAT else None
        if not isinstance(at, dict):
            raise self._error("it holds no cursor of this version")
        if found.get("of") != self._of:
            raise self._error(f"it is of another stream: {json.dumps(found.get('of'))}")
        return at

    def _error(self, why: str, hint: str = _OWN) -> UsageError:
        return UsageError(
            f"cannot tail --cursor {visible(self._path)}: {visible(why)}",
            hint=hint,
        )

    @property
    def is_due(self) -> bool:
        """Whether the next event is saved, whatever waits behind it."""
        return self._unsaved + 1 >= SAVE_EVENTS

    def printed(self, at: "dict[str, Any]", *, idle: bool) -> None:
        """Something was printed, or passed over, up to ``at``; ``idle``: nothing more waits."""
        self.at = at
        self._unsaved += 1
        if idle or self._unsaved >= SAVE_EVENTS:
            self.save()

    def save(self) -> None:
        """Replace the file, whole; a reader finds the old or the new one."""
        self._unsaved = 0
        if self.at == self._saved or not self.at:
            return
        text = json.dumps({"format": FORMAT, "of": self._of, "at": self.at}) + "\n"
        beside = f"{self._path}.{os.getpid()}.new"
        try:
            with open(beside, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(beside, self._path)
        except OSError as error:
            raise CoachmanError(
                f"cannot save the cursor in {visible(self._path)}: {error.strerror}",
                exit_code=EXIT_STORAGE,
            ) from None
        self._saved = self.at
