"""What answers to an agent leave out: paths of the host, and what lies above the one that asks."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from ..rpc.errors import RpcError
from ..runs.run import Run

SHOWN_INSTEAD = "[host]"
# Members that the daemon fills with the host's own, and what stands there instead.
BLANK: Mapping[str, Any] = {
    "dir": "",
    "worktree": "",
    "evidence_dir": "",
    "final_path": "",
    "executable": None,
    "request": {},
    "policy": None,
    "environment": {},
}
# What the daemon says in words, which may name a path.
WORDS = frozenset({"by", "warnings", "error", "message", "hint", "next", "detail", "why"})
# What agents and repositories say: left as it is, for a patch that was changed is none.
AS_IT_IS = frozenset({"tool", "options", "patch", "patch_b64", "final_message", "text", "labels"})
# Lines of a journal in which the daemon itself speaks.
SPOKEN = ("run.", "attempt.", "error", "check.", "permission.", "feed.", "agent.input")
# Lines of a transcript of which the same is true.
SPOKEN_KINDS = ("state", "answer", "error")
_EVENT = b'"event":{"type":"'
_SPOKEN = tuple(kind.encode() for kind in SPOKEN)


@frozen
class Hiding:
    """Hides ``paths`` of the host from ``run``, and its own ancestors."""

    run: str
    paths: tuple[str, ...]

    @classmethod
    def of_run(cls, run: Run) -> "Hiding":
        """What ``run`` is not to see."""
        services, repository = run.services, run.fixed.repository
        named = {
            str(services.state.root),
            str(services.state.worktrees),
            str(services.state.sealed),
            os.path.realpath(services.state.root),
            repository.toplevel,
            repository.common_dir,
            services.environment.get("HOME", ""),
            run.environment.get("HOME", ""),
            *(handler.path for handler in run.fixed.handlers),
            run.fixed.on_event.path if run.fixed.on_event else "",
        }
        # The longest first: one may lie in another.
        paths = sorted((path for path in named if path.count("/") > 1), key=len, reverse=True)
        return cls(run.fixed.run, tuple(paths))

    def of(self, value: Any) -> Any:
        """A result without what is not for the run."""
        if isinstance(value, dict):
            return {name: self._member(name, member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.of(member) for member in value]
        return value

    def _member(self, name: str, value: Any) -> Any:
        if name in AS_IT_IS:
            return value
        # A permission's request is its id; a run's is its record.
        if name in BLANK and not (name == "request" and isinstance(value, str)):
            return BLANK[name]
        if name == "ancestors":
            return value[value.index(self.run) :] if self.run in value else []
        if name in WORDS:
            return _in_words(value, self.words)
        if name == "events":
            return [self._event(event) for event in value]
        if name == "lines":
            return [self._line_of_log(line) for line in value]
        return self.of(value)

    def _event(self, event: Any) -> Any:
        spoken = event["type"].startswith(SPOKEN)
        return _in_words(event, self.words) if spoken else event

    def _line_of_log(self, line: Any) -> Any:
        return _in_words(line, self.words) if line["kind"] in SPOKEN_KINDS else line

    def words(self, text: str) -> str:
        """A text of the daemon's own without the paths."""
        for path in self.paths:
            text = text.replace(path, SHOWN_INSTEAD)
        return text

    def lines(self, lines: bytes) -> bytes:
        """Notifications of events, hidden where the daemon itself speaks."""
        return b"".join(self._line(line) for line in lines.splitlines(keepends=True))

    def _line(self, line: bytes) -> bytes:
        if line.partition(_EVENT)[2].startswith(_SPOKEN):
            for path in self.paths:
                line = line.replace(os.fsencode(path), SHOWN_INSTEAD.encode())
        return line

    @contextmanager
    def of_refusals(self) -> Iterator[None]:
        """What is refused is refused in words that hide as well."""
        try:
            yield
        except RpcError as error:
            told = {**error.data, "message": self.words(error.message)}
            raise RpcError(**_in_words(told, self.words)) from error


def _in_words(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _in_words(member, change) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_in_words(member, change) for member in value]
    return value
