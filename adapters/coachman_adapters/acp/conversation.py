"""The client's side of the Agent Client Protocol, version 1, as a pure state machine.

    new -> initializing -> opening -> configuring -> ready   (prompts run one by one)
                 \\____________\\____________\\-> failed        (every prompt gets the error)

Frames are handled strictly in the order they arrived. Nothing here knows the time:
timers are asked for by name, "initialize", "session", "replay" and "settle".
"""

from collections.abc import Callable, Mapping
from typing import Any

from coachman_adapters import failing, texts
from coachman_adapters.acp import (
    configuring,
    frames,
    handshake,
    messages,
    options,
    trouble,
    updates,
)
from coachman_adapters.acp.accounts import Accounts
from coachman_adapters.acp.asks import Asks
from coachman_adapters.acp.calls import call, reported
from coachman_adapters.acp.frames import Notification, Request, Response
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.acp.state import REPLAYING, State
from coachman_adapters.acp.tools import Tools
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Ending,
    Event,
    SetTimer,
    Span,
    TurnEnded,
    Write,
)
from coachman_adapters.events import NOTICE, OWN_STOP_REASONS, STOP_REASONS
from coachman_adapters.lines import Line
from coachman_adapters.opening import NoSessionError
from coachman_adapters.turn_conversation import TurnConversation
from coachman_adapters.turn_state import READY

Step = Callable[[State, AgentRequest, Quirks, Response], list[Action]]
_STEPS: Mapping[str, Step] = {
    messages.INITIALIZE: handshake.initialized,
    messages.SESSION_NEW: handshake.opened,
    messages.SESSION_LOAD: handshake.opened,
    messages.SESSION_RESUME: handshake.opened,
    messages.AUTHENTICATE: handshake.authenticated,
    messages.SET_MODE: configuring.configured,
    messages.SET_OPTION: configuring.configured,
    messages.SET_MODEL: configuring.configured,
}
HINT_CHARS = 500


class AcpConversation(TurnConversation[State, Asks]):
    """One attempt's dialogue with an ACP agent over stdio."""

    TIMERS = ("initialize", "session")

    def __init__(self, request: AgentRequest, quirks: Quirks) -> None:
        self._quirks = quirks
        super().__init__(request, State())

    def __repr__(self) -> str:
        state = self._state
        turn = f", prompt {state.prompt}" if state.prompt is not None else ""
        return f"<AcpConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Greet the agent."""
        return handshake.greet(self._state, self._request)

    def expire(self, timer: str) -> list[Action]:
        """A timer ran out."""
        if timer == "settle":
            return self._close()
        if timer == "replay":
            return self._replayed()
        try:
            handshake.late(self._state, timer)
        except NoSessionError as refused:
            return self._fail(refused.error)
        return []

    def finish(self, ending: Ending) -> list[Action]:
        """The agent is gone: settle what is open and read the epilogue."""
        actions = super().finish(ending)
        return actions + self._accounts.epilogue(ending.epilogue, self._request)

    def _adopt(self, state: State) -> None:
        super()._adopt(state)
        self._tools = Tools(state.tools, self._quirks.title_is_name)
        self._asks = Asks(state, self._tools, self._quirks)
        self._accounts = Accounts(state, self._quirks)

    # --- frames ---------------------------------------------------------------------

    def _line(self, line: Line) -> list[Action]:
        frame = frames.decode(line.data) if line.data is not None else None
        if frame is None:
            return [*self._noises.hear(line)]
        if isinstance(frame, Response):
            return self._response(frame, line.span)
        if isinstance(frame, Request):
            return self._requested(frame, line.span)
        return self._told(frame, line.span)

    def _response(self, response: Response, span: Span) -> list[Action]:
        state = self._state
        if response.id is None:
            if len(state.requests) == 1 and response.error is not None:
                state.hint = str(response.error["message"])[:HINT_CHARS]
            return [updates.unknown({"id": None, "error": response.error}, span)]
        # Agents echo our integers as strings now and then. An id that was answered
        # before, or never sent, settles nothing.
        method = state.requests.pop(str(response.id), None)
        if method == messages.SESSION_PROMPT:
            return self._prompted(response)
        if method is None:
            return []
        try:
            step = _STEPS[method](state, self._request, self._quirks, response)
            return step + self._prompt()
        except NoSessionError as refused:
            return [*refused.told, *self._fail(refused.error)]

    def _requested(self, request: Request, span: Span) -> list[Action]:
        if request.method == messages.REQUEST_PERMISSION:
            return self._asks.request(request, span)
        if request.method == messages.ELICIT and self._request.words:
            return self._asks.elicit(request, span)
        message = f"method not found: {request.method[:100]}"
        return [Write(frames.error(request.id, frames.METHOD_NOT_FOUND, message))]

    def _told(self, notification: Notification, span: Span) -> list[Action]:
        params = notification.params
        if notification.method == messages.CANCEL_REQUEST:
            return self._asks.take_back(params.get("requestId"))
        if notification.method == messages.SESSION_UPDATE:
            return self._update(params, span)
        raw = {"method": notification.method, "params": dict(params)}
        return [updates.unknown(raw, span)]

    # --- turns ----------------------------------------------------------------------

    @property
    def _is_prompted(self) -> bool:
        return self._state.prompt is not None

    def _send(self, text: str) -> list[Action]:
        state = self._state
        state.prompt, state.prompts_sent = state.next_id, state.prompts_sent + 1
        return [call(state, messages.SESSION_PROMPT, messages.prompt(str(state.session), text))]

    def _prompted(self, response: Response) -> list[Action]:
        state = self._state
        if response.error is not None:
            if state.cancelled:
                return self._turn_over(TurnEnded("cancelled"))
            return self._turn_over(failing.failed(reported(response.error, state)))
        result = response.result if isinstance(response.result, dict) else {}
        ended, notices = _stop(result.get("stopReason"), state.cancelled)
        told = self._accounts.turn(result, self._request)
        return [*notices, *told, *self._turn_over(trouble.outcome(state, ended))]

    def _interrupt(self) -> list[Action]:
        params = messages.cancel(str(self._state.session))
        cancel = Write(frames.notification(messages.SESSION_CANCEL, params))
        return [cancel, *self._asks.refuse()]

    def _forget_turn(self) -> None:
        self._state.prompt = None

    def _leave(self) -> list[Action]:
        settle_s = self._quirks.settle_s
        return [SetTimer("settle", settle_s)] if settle_s else self._close()

    # --- updates --------------------------------------------------------------------

    def _update(self, params: Mapping[str, Any], span: Span) -> list[Action]:
        update, state = params.get("update"), self._state
        foreign = state.session is not None and params.get("sessionId") != state.session
        variant = update.get("sessionUpdate") if isinstance(update, dict) else None
        if foreign or not isinstance(update, dict) or not isinstance(variant, str):
            return [updates.unknown(dict(params), span)]
        if variant == "usage_update":
            return self._accounts.update(update, self._request)
        if variant == "config_option_update":
            return self._reconfigured(update, span)
        if self._is_past(variant):
            return self._repeated()
        if trouble.hear(state, self._quirks, update):
            return []
        self._accounts.note(update)
        told = updates.events_of(update, self._tools, span)
        return [*told, *self._accounts.step(update)]

    def _is_past(self, variant: str) -> bool:
        """Whether this only repeats what is known: a loaded past, an echo of our prompt."""
        state = self._state
        if state.phase == REPLAYING or messages.SESSION_LOAD in state.requests.values():
            return variant in updates.HISTORY
        return variant == "user_message_chunk" and state.prompt is not None

    def _repeated(self) -> list[Action]:
        """More of the past: wait for its end anew where it comes after the answer to the load."""
        replaying = self._state.phase == REPLAYING
        return [SetTimer("replay", self._quirks.replay_s)] if replaying else []

    def _replayed(self) -> list[Action]:
        try:
            step = handshake.replayed(self._state, self._request, self._quirks)
            return step + self._prompt()
        except NoSessionError as refused:
            return self._fail(refused.error)

    def _reconfigured(self, update: Mapping[str, Any], span: Span) -> list[Action]:
        state, offered = self._state, options.offered(update)
        before, now = options.current(state.options), options.current(offered)
        # Until all is set, it matters what could be.
        state.options = options.brief(offered) if state.phase == READY else offered
        changed = [f"{name}: {value}" for name, value in now.items() if before.get(name) != value]
        members = texts.fit({"text": ", ".join(changed)}, span.size)
        return [Event(NOTICE, members, span)] if changed else []


def _stop(reason: Any, cancelled: bool) -> tuple[TurnEnded, list[Event]]:
    """A result's stop reason as ours. After our cancel, "end_turn" confirms it."""
    if not isinstance(reason, str):
        message = "the agent ended the turn without a stop reason"
        return TurnEnded("error", {"message": message, "code": "no_stop_reason"}), []
    notices = []
    if reason not in STOP_REASONS or reason in OWN_STOP_REASONS:
        notices = [Event(NOTICE, {"text": f"unknown stop reason {reason[:100]!r}"})]
        reason = "end_turn"
    return TurnEnded("cancelled" if cancelled and reason == "end_turn" else reason), notices
