"""The client's side of pi's RPC mode, as a pure state machine.

    opening -> ready     (prompts run one by one, each until pi is settled)
        \\_____\\-> failed (every prompt gets the error)

pi answers each command by its id and tells what it does in records between. A prompt's answer
only says that it was taken; the turn is over when pi has nothing more to do of its own accord.
"""

import copy
from collections.abc import Mapping
from typing import Any

from coachman_adapters import failing, jsonlines, texts
from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    CloseStdin,
    Ending,
    Event,
    Intent,
    Prompt,
    SetTimer,
    Span,
    TurnEnded,
)
from coachman_adapters.endings import exited
from coachman_adapters.events import NOTICE
from coachman_adapters.lines import Line, LineDecoder
from coachman_adapters.noises import Noises
from coachman_adapters.pi import commands, session
from coachman_adapters.pi.accounts import Accounts
from coachman_adapters.pi.dialogs import Dialogs
from coachman_adapters.pi.session import Refused
from coachman_adapters.pi.state import FAILED, OPENING, READY, State
from coachman_adapters.pi.updates import Updates

_STOPS = {"stop": "end_turn", "toolUse": "end_turn", "length": "max_tokens"}
_OVER = {"message": "the run takes no more prompts", "code": "closed"}
_SILENT = f"the agent did not answer within {session.LIMIT_S:.0f} s"


class PiConversation:
    """One attempt's dialogue with pi over stdio."""

    def __init__(self, request: AgentRequest) -> None:
        self._request = request
        self._decoder = LineDecoder()
        self._adopt(State())

    def __repr__(self) -> str:
        state = self._state
        turn = f", prompt {state.prompt}" if state.prompt is not None else ""
        return f"<PiConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Ask which session pi opened."""
        try:
            return session.greet(self._state, self._request)
        except Refused as refused:
            return self._fail(refused.error)

    def receive(self, data: bytes) -> list[Action]:
        """Handle the lines that ``data`` completes."""
        return self._lines(self._decoder.feed(data))

    def intend(self, intent: Intent) -> list[Action]:
        """Take a prompt, an answer or a cancel."""
        if isinstance(intent, Prompt):
            self._state.queue.append(intent.text)
            over = self._state.phase == FAILED or self._state.closing
            return self._end_all() if over else self._prompt()
        if isinstance(intent, Answer):
            return self._dialogs.answer(intent)
        return self._cancel()

    def expire(self, timer: str) -> list[Action]:
        """The session is not there in time."""
        late = self._state.phase == OPENING
        return self._fail({"message": _SILENT, "code": "agent_silent"}) if late else []

    def finish(self, ending: Ending) -> list[Action]:
        """pi is gone: settle what is open."""
        state = self._state
        actions = self._lines(self._decoder.finish())
        actions += [*self._noises.flush(), *self._dialogs.forget()]
        if state.phase != FAILED:
            state.phase = FAILED
            state.failure = exited("agent", ending, "before its turn was over")
            actions += self._end_all()
        return actions

    def snapshot(self) -> dict[str, Any]:
        """Everything this conversation remembers, as JSON values."""
        return {"decoder": self._decoder.snapshot(), "state": self._state.snapshot()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Become the conversation that ``snapshot`` was taken of."""
        self._decoder.restore(snapshot["decoder"])
        self._adopt(State(**copy.deepcopy(snapshot["state"])))

    def _adopt(self, state: State) -> None:
        self._state = state
        self._tools = Tools(state.tools)
        self._dialogs = Dialogs(state, self._tools)
        self._updates = Updates(state, self._tools)
        self._accounts = Accounts(state)
        self._noises = Noises(state)

    # --- records --------------------------------------------------------------------

    def _lines(self, lines: list[Line]) -> list[Action]:
        actions: list[Action] = []
        for line in lines:
            if line.data is None or line.data.strip():
                actions += self._line(line)
        return actions

    def _line(self, line: Line) -> list[Action]:
        record = jsonlines.decode(line.data) if line.data is not None else None
        if record is None or not isinstance(record.get("type"), str):
            return [*self._noises.hear(line)]
        handle = _HANDLERS.get(record["type"])
        if handle is not None:
            return handle(self, record, line.span)
        return [*self._updates.tell(record, line.span)]

    def _response(self, record: dict[str, Any], span: Span) -> list[Action]:
        # An id that was answered before, or never sent, settles nothing.
        command = self._state.commands.pop(str(record.get("id")), None)
        data = record.get("data")
        told = data if isinstance(data, dict) else {}
        if record.get("success") is not True:
            return self._failed(command, record, span)
        if command == commands.PROMPT:
            handled = told.get("disposition") == "handled"
            return self._turn_over(TurnEnded("end_turn")) if handled else []
        try:
            if command == commands.GET_STATE:
                actions = session.opened(self._state, self._request, told)
                return actions + self._opened()
            if command == commands.GET_EFFORTS:
                raise session.not_offered(self._state, self._request, told)
        except Refused as refused:
            return self._fail(refused.error)
        return []

    def _failed(self, command: str | None, record: dict[str, Any], span: Span) -> list[Action]:
        error = texts.fit({"message": str(record.get("error") or "an error without a message")})
        if command == commands.PROMPT:
            return self._turn_over(failing.failed(error))
        if command in (commands.GET_STATE, commands.GET_EFFORTS):
            return self._fail(error)
        return [Event(NOTICE, texts.fit({"text": error["message"], "severity": "error"}), span)]

    def _opened(self) -> list[Action]:
        failure = self._state.failure
        return self._fail(failure) if failure else self._prompt()

    def _dialog(self, record: dict[str, Any], span: Span) -> list[Action]:
        state = self._state
        refuse = state.cancelled or state.closing or state.phase == FAILED
        return self._dialogs.request(record, span, refuse)

    def _begun(self, record: dict[str, Any], span: Span) -> list[Action]:
        state = self._state
        if state.prompt is None:
            return []
        state.runs = True
        # A cancel that came before may have found nothing to abort.
        return [commands.command(state, commands.ABORT)] if state.cancelled else []

    def _message_begins(self, record: dict[str, Any], span: Span) -> list[Action]:
        if _of_the_model(record) is not None:
            self._updates.begin()
        return []

    def _message_ends(self, record: dict[str, Any], span: Span) -> list[Action]:
        message, state = _of_the_model(record), self._state
        if message is None:
            return self._tool_spent(record)
        state.stop = {
            name: message[member]
            for name, member in (("reason", "stopReason"), ("message", "errorMessage"))
            if isinstance(message.get(member), str)
        }
        for name in ("model", "provider"):
            if texts.is_id(message.get(name)):
                setattr(state, name, message[name])
        return [
            *self._updates.complete(message, span),
            *self._accounts.add(message.get("usage")),
        ]

    def _tool_spent(self, record: dict[str, Any]) -> list[Action]:
        message = record.get("message")
        return self._accounts.add(message.get("usage")) if isinstance(message, dict) else []

    def _compacted(self, record: dict[str, Any], span: Span) -> list[Action]:
        result = record.get("result")
        spent = self._accounts.add(result.get("usage")) if isinstance(result, dict) else []
        return [*self._updates.tell(record, span), *spent]

    def _settled(self, record: dict[str, Any], span: Span) -> list[Action]:
        if not self._state.runs:
            return []
        ended, notices = _stop(self._state.stop or {}, record.get("aborted") is True)
        return [*notices, *self._turn_over(ended)]

    # --- turns ----------------------------------------------------------------------

    def _prompt(self) -> list[Action]:
        """Send the next prompt, one at a time: pi would refuse or merge a second one."""
        state = self._state
        if state.phase != READY or state.prompt is not None or not state.queue:
            return []
        state.prompt, state.stop = f"c{state.next_id}", None
        return [commands.command(state, commands.PROMPT, message=state.queue.pop(0))]

    def _turn_over(self, ended: TurnEnded) -> list[Action]:
        state = self._state
        if state.prompt is None:
            return []
        if state.cancelled:
            ended = TurnEnded("cancelled")
        actions = [*self._dialogs.forget()]
        if ended.stop_reason == "cancelled":
            actions += self._tools.close("cancelled")
        state.commands.pop(state.prompt, None)
        state.prompt, state.runs, state.cancelled = None, False, False
        actions.append(ended)
        if self._request.keep:
            return actions + self._prompt()
        state.closing = True
        return actions + self._close()

    def _cancel(self) -> list[Action]:
        state = self._state
        if state.prompt is not None and not state.cancelled:
            state.cancelled = True
            # An abort waits for open dialogs, so they are answered first.
            return [*self._dialogs.refuse(), commands.command(state, commands.ABORT)]
        if state.prompt is None and state.queue:
            # pi never heard of this turn, so there is nothing to confirm.
            state.queue.pop(0)
            return [TurnEnded("cancelled"), *self._after_unheard()]
        return self._dialogs.refuse()

    def _after_unheard(self) -> list[Action]:
        if self._request.keep:
            return []
        self._state.closing = True
        return self._close()

    def _close(self) -> list[Action]:
        if self._state.stdin_closed:
            return []
        self._state.stdin_closed = True
        return [CloseStdin()]

    def _fail(self, error: dict[str, Any]) -> list[Action]:
        """The session cannot be had: say so for each prompt, let pi go."""
        state = self._state
        state.phase, state.failure = FAILED, error
        state.commands.clear()
        settled: list[Action] = [*self._dialogs.forget(), *self._end_all()]
        return [SetTimer(session.TIMER, None), *settled, *self._close()]

    def _end_all(self) -> list[Action]:
        """End the running prompt and those that wait with the failure."""
        state = self._state
        turns = len(state.queue) + (state.prompt is not None)
        state.prompt, state.runs = None, False
        state.queue.clear()
        return [failing.failed(state.failure or _OVER) for _ in range(turns)]


_HANDLERS = {
    "response": PiConversation._response,
    "extension_ui_request": PiConversation._dialog,
    "agent_start": PiConversation._begun,
    "agent_settled": PiConversation._settled,
    "message_start": PiConversation._message_begins,
    "message_end": PiConversation._message_ends,
    "compaction_end": PiConversation._compacted,
}


def _of_the_model(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record's message, where the model is who says it."""
    message = record.get("message")
    return message if isinstance(message, dict) and message.get("role") == "assistant" else None


def _stop(stop: Mapping[str, Any], aborted: bool) -> tuple[TurnEnded, list[Event]]:
    """How a turn ended, by the newest answer of the model."""
    reason = stop.get("reason")
    if aborted or reason == "aborted":
        return TurnEnded("cancelled"), []
    if reason == "error":
        message = stop.get("message") or "the model failed without a message"
        return failing.failed(texts.fit({"message": message})), []
    if reason is None:
        message = "the agent ended the turn without an answer of the model"
        return TurnEnded("error", {"message": message, "code": "no_stop_reason"}), []
    known = _STOPS.get(str(reason))
    notices = [] if known else [Event(NOTICE, {"text": f"unknown stop reason {reason[:100]!r}"})]
    return TurnEnded(known or "end_turn"), notices
