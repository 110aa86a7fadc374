"""The client's side of pi's RPC mode, as a pure state machine.

    opening -> ready     (prompts run one by one, each until pi is settled)
        \\_____\\-> failed (every prompt gets the error)

pi answers each command by its id and tells what it does in records between. A prompt's answer
only says that it was taken; the turn is over when pi has nothing more to do of its own accord.
"""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import failing, jsonlines, texts
from coachman_adapters.conversation import Action, AgentRequest, Event, Span, TurnEnded
from coachman_adapters.events import NOTICE
from coachman_adapters.lines import Line
from coachman_adapters.opening import NoSessionError
from coachman_adapters.pi import commands, session
from coachman_adapters.pi.accounts import Accounts
from coachman_adapters.pi.dialogs import Dialogs
from coachman_adapters.pi.state import OPENING, State
from coachman_adapters.pi.updates import Updates
from coachman_adapters.turn_conversation import TurnConversation

_STOPS = {"stop": "end_turn", "toolUse": "end_turn", "length": "max_tokens"}
_SILENT = f"the agent did not answer within {session.LIMIT_S:.0f} s"


class PiConversation(TurnConversation[State, Dialogs]):
    """One attempt's dialogue with pi over stdio."""

    TIMERS = (session.TIMER,)

    def __init__(self, request: AgentRequest) -> None:
        super().__init__(request, State())

    def __repr__(self) -> str:
        state = self._state
        turn = f", prompt {state.prompt}" if state.prompt is not None else ""
        return f"<PiConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Ask which session pi opened."""
        try:
            return session.greet(self._state, self._request)
        except NoSessionError as refused:
            return self._fail(refused.error)

    def expire(self, timer: str) -> list[Action]:
        """The session is not there in time."""
        late = self._state.phase == OPENING
        return self._fail({"message": _SILENT, "code": "agent_silent"}) if late else []

    def _adopt(self, state: State) -> None:
        super()._adopt(state)
        self._asks = Dialogs(state, self._tools)
        self._updates = Updates(state, self._tools)
        self._accounts = Accounts(state)

    # --- records --------------------------------------------------------------------

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
        command = self._state.requests.pop(str(record.get("id")), None)
        data = record.get("data")
        told = data if isinstance(data, dict) else {}
        if record.get("success") is not True:
            return self._failed(command, record, span)
        if command == commands.PROMPT:
            handled = told.get("disposition") == "handled"
            return self._turn_over(TurnEnded("end_turn")) if handled else []
        try:
            if command == commands.GET_STATE:
                return session.opened(self._state, self._request, told) + self._prompt()
            if command == commands.GET_EFFORTS:
                raise session.not_offered(self._state, self._request, told)
        except NoSessionError as refused:
            return [*refused.told, *self._fail(refused.error)]
        return []

    def _failed(self, command: str | None, record: dict[str, Any], span: Span) -> list[Action]:
        error = texts.fit({"message": str(record.get("error") or "an error without a message")})
        if command == commands.PROMPT:
            return self._turn_over(failing.failed(error))
        if command in (commands.GET_STATE, commands.GET_EFFORTS):
            return self._fail(error)
        return [Event(NOTICE, texts.fit({"text": error["message"], "severity": "error"}), span)]

    def _dialog(self, record: dict[str, Any], span: Span) -> list[Action]:
        return self._asks.request(record, span)

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

    @property
    def _is_prompted(self) -> bool:
        return self._state.prompt is not None

    def _send(self, text: str) -> list[Action]:
        state = self._state
        state.prompt, state.stop = f"c{state.next_id}", None
        return [commands.command(state, commands.PROMPT, message=text)]

    def _interrupt(self) -> list[Action]:
        # An abort waits for open dialogs, so they are answered first.
        return [*self._asks.refuse(), commands.command(self._state, commands.ABORT)]

    def _forget_turn(self) -> None:
        state = self._state
        state.requests.pop(str(state.prompt), None)
        state.prompt, state.runs = None, False

    def _turn_over(self, ended: TurnEnded) -> list[Action]:
        return super()._turn_over(TurnEnded("cancelled") if self._state.cancelled else ended)


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
