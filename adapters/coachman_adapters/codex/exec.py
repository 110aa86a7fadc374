"""``codex exec --json``: one prompt on stdin, then a record a line until codex is through.

It takes no answers, so nothing is asked. ``turn.completed`` and ``turn.failed`` are the
terminal records; without one the turn failed, whatever the exit status. A cancel has no form
of its own: stdin is closed, then codex is signalled, and whatever end it takes confirms that.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import define, field

from coachman_adapters import failing, jsonlines, texts
from coachman_adapters.codex import failures, rollout, tokens
from coachman_adapters.codex.items import Items, respelled
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    Ending,
    Event,
    Intent,
    Prompt,
    SessionKnown,
    Span,
    TurnEnded,
    Usage,
    Write,
)
from coachman_adapters.endings import exited
from coachman_adapters.events import UNKNOWN
from coachman_adapters.line_conversation import LineConversation, LineState
from coachman_adapters.lines import Line

_OVER = {"message": "the run takes no more prompts", "code": "closed"}


@define
class State(LineState):
    """``open``: the prompt's turn is not over. ``hint``: the last error."""

    session: str | None = None
    prompted: bool = False
    open: bool = False
    hint: str | None = None
    told: dict[str, int] = field(factory=dict)


class ExecConversation(LineConversation[State]):
    """One bounded run of codex."""

    def __init__(self, request: AgentRequest) -> None:
        super().__init__(request, State())

    def __repr__(self) -> str:
        return f"<ExecConversation {'running' if self._state.open else 'idle'}>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """codex speaks first, once it has its prompt."""
        return []

    def intend(self, intent: Intent) -> list[Action]:
        """Take the prompt, or a cancel. Nothing was asked that could be answered."""
        state = self._state
        if isinstance(intent, Prompt):
            if state.prompted:
                return [TurnEnded("error", _OVER)]
            state.prompted = state.open = True
            write = [] if state.stdin_closed else [Write(intent.text.encode())]
            return [*write, *self._close()]
        if isinstance(intent, Answer):
            return []
        state.cancelled = True
        return self._close()

    def expire(self, timer: str) -> list[Action]:
        """There are no timers."""
        return []

    def finish(self, ending: Ending) -> list[Action]:
        """codex is gone: a turn that it did not end has failed."""
        actions = self._last_lines()
        if self._state.open:
            actions += self._end(failing.failed(self._died(ending)))
        usage = rollout.usage(ending.epilogue, tokens.baseline(self._request))
        return [*actions, *([usage] if usage else [])]

    def _adopt(self, state: State) -> None:
        super()._adopt(state)
        self._items = Items(self._tools, state.told)

    # --- records --------------------------------------------------------------------

    def _line(self, line: Line) -> list[Action]:
        record = jsonlines.decode(line.data) if line.data is not None else None
        kind = record.get("type") if record is not None else None
        if record is None or not isinstance(kind, str):
            return [*self._noises.hear(line)]
        handle = _HANDLERS.get(kind)
        if handle is None:
            return [Event(UNKNOWN, texts.fit({"raw": record}, line.span.size), line.span)]
        return [*handle(self, record, line.span)]

    def _thread(self, record: Mapping[str, Any], span: Span) -> Iterator[Action]:
        thread = record.get("thread_id")
        if texts.is_id(thread) and thread != self._state.session:
            self._state.session = thread
            yield SessionKnown(thread)

    def _begun(self, record: Mapping[str, Any], span: Span) -> Iterator[Action]:
        yield from ()

    def _item(self, record: Mapping[str, Any], span: Span) -> Iterator[Action]:
        item = record.get("item")
        told = respelled(item) if isinstance(item, dict) else {}
        yield from self._items.tell(told, record.get("type") == "item.completed", span)

    def _error(self, record: Mapping[str, Any], span: Span) -> Iterator[Action]:
        # It may yet go on: what it means is said by the record that ends the turn.
        message = failures.words(record.get("message"))
        if message.startswith(failures.RECONNECTING):
            yield failures.retrying(message, span)
        self._state.hint = message[: texts.SMALL_STRING_CHARS]

    def _completed(self, record: Mapping[str, Any], span: Span) -> Iterator[Action]:
        usage, before = record.get("usage"), tokens.baseline(self._request)
        if isinstance(usage, dict) and before is not None:
            total = tokens.session_counters(usage)
            counters = tokens.since(before, total)
            yield Usage(counters, model=self._request.model, session_counters=total)
        yield from self._end(TurnEnded("end_turn"))

    def _failed(self, record: Mapping[str, Any], span: Span) -> Iterator[Action]:
        ended, notices = failures.turn_failed(record.get("error"), span)
        yield from notices
        yield from self._end(ended)

    # --- ends -----------------------------------------------------------------------

    def _end(self, ended: TurnEnded) -> list[Action]:
        if not self._state.open:
            return []
        self._state.open = False
        if not self._state.cancelled:
            return [ended]
        return [*self._tools.close("cancelled"), TurnEnded("cancelled")]

    def _died(self, ending: Ending) -> dict[str, Any]:
        error = exited("agent", ending, "before its turn was over", self._state.hint)
        if self._request.session is not None and self._state.session is None:
            error["message"] = f"cannot resume session {self._request.session}: {error['message']}"
        return error


_HANDLERS: Mapping[str, Callable[[ExecConversation, Mapping[str, Any], Span], Iterator[Action]]] = {
    "thread.started": ExecConversation._thread,
    "turn.started": ExecConversation._begun,
    "item.started": ExecConversation._item,
    "item.updated": ExecConversation._item,
    "item.completed": ExecConversation._item,
    "error": ExecConversation._error,
    "turn.completed": ExecConversation._completed,
    "turn.failed": ExecConversation._failed,
}
