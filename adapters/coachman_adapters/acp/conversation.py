"""The client's side of the Agent Client Protocol, version 1, as a pure state machine.

    new -> initializing -> opening -> configuring -> ready   (prompts run one by one)
                 \\____________\\____________\\-> failed        (every prompt gets the error)

Frames are handled strictly in the order they arrived. Nothing here knows the time:
timers are asked for by name, "initialize", "session", "replay" and "settle".
"""

import copy
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
from coachman_adapters.acp.calls import Refused, call, reported
from coachman_adapters.acp.frames import Notification, Request, Response
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.acp.state import FAILED, READY, REPLAYING, State
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
    Write,
)
from coachman_adapters.endings import exited
from coachman_adapters.events import NOTICE, OWN_STOP_REASONS, STOP_REASONS
from coachman_adapters.lines import Line, LineDecoder
from coachman_adapters.noises import Noises

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
HANDSHAKE_TIMERS = ("initialize", "session")
_OVER = {"message": "the run takes no more prompts", "code": "closed"}


class AcpConversation:
    """One attempt's dialogue with an ACP agent over stdio."""

    def __init__(self, request: AgentRequest, quirks: Quirks) -> None:
        self._request = request
        self._quirks = quirks
        self._decoder = LineDecoder()
        self._adopt(State())

    def __repr__(self) -> str:
        state = self._state
        turn = f", prompt {state.prompt}" if state.prompt is not None else ""
        return f"<AcpConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Greet the agent."""
        return handshake.greet(self._state)

    def receive(self, data: bytes) -> list[Action]:
        """Handle the lines that ``data`` completes."""
        return self._lines(self._decoder.feed(data))

    def intend(self, intent: Intent) -> list[Action]:
        """Take a prompt, an answer or a cancel."""
        if isinstance(intent, Prompt):
            return self._queue(intent.text)
        if isinstance(intent, Answer):
            return self._asks.answer(intent)
        return self._cancel()

    def expire(self, timer: str) -> list[Action]:
        """A timer ran out."""
        if timer == "settle":
            return self._close()
        if timer == "replay":
            return self._replayed()
        try:
            handshake.late(self._state, timer)
        except Refused as refused:
            return self._fail(refused.error)
        return []

    def finish(self, ending: Ending) -> list[Action]:
        """The agent is gone: settle what is open and read the epilogue."""
        state = self._state
        actions = self._lines(self._decoder.finish())
        actions += [*self._noises.flush(), *self._asks.forget()]
        if state.phase != FAILED:
            state.phase = FAILED
            state.failure = exited("agent", ending, "before its turn was over", state.hint)
            actions += self._end_all()
        return actions + self._accounts.epilogue(ending.epilogue, self._request)

    def snapshot(self) -> dict[str, Any]:
        """Everything this conversation remembers, as JSON values."""
        return {"decoder": self._decoder.snapshot(), "state": self._state.snapshot()}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Become the conversation that ``snapshot`` was taken of."""
        self._decoder.restore(snapshot["decoder"])
        self._adopt(State(**copy.deepcopy(snapshot["state"])))

    def _adopt(self, state: State) -> None:
        self._state = state
        self._tools = Tools(state.tools, self._quirks.title_is_name)
        self._asks = Asks(state, self._tools, self._quirks)
        self._noises = Noises(state)
        self._accounts = Accounts(state, self._quirks)

    # --- frames ---------------------------------------------------------------------

    def _lines(self, lines: list[Line]) -> list[Action]:
        actions: list[Action] = []
        for line in lines:
            if line.data is None or line.data.strip():
                actions += self._line(line)
        return actions

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
        except Refused as refused:
            return [*refused.told, *self._fail(refused.error)]

    def _requested(self, request: Request, span: Span) -> list[Action]:
        state = self._state
        if request.method == messages.REQUEST_PERMISSION:
            refuse = state.cancelled or state.closing or state.phase == FAILED
            return self._asks.request(request, span, refuse)
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

    def _queue(self, text: str) -> list[Action]:
        state = self._state
        state.queue.append(text)
        over = state.phase == FAILED or state.closing
        return self._end_all() if over else self._prompt()

    def _prompt(self) -> list[Action]:
        """Send the next prompt, one at a time: what agents do with two differs wildly."""
        state = self._state
        if state.phase != READY or state.prompt is not None or not state.queue:
            return []
        state.prompt, state.prompts_sent = state.next_id, state.prompts_sent + 1
        params = messages.prompt(str(state.session), state.queue.pop(0))
        return [call(state, messages.SESSION_PROMPT, params)]

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

    def _turn_over(self, ended: TurnEnded) -> list[Action]:
        state = self._state
        actions = self._asks.settle()
        if ended.stop_reason == "cancelled":
            actions += self._tools.close("cancelled")
        state.prompt, state.cancelled = None, False
        actions.append(ended)
        if self._request.keep:
            return actions + self._prompt()
        state.closing = True
        if self._quirks.settle_s:
            return [*actions, SetTimer("settle", self._quirks.settle_s)]
        return actions + self._close()

    def _cancel(self) -> list[Action]:
        state = self._state
        if state.prompt is not None and not state.cancelled:
            state.cancelled = True
            params = messages.cancel(str(state.session))
            cancel = Write(frames.notification(messages.SESSION_CANCEL, params))
            return [cancel, *self._asks.refuse()]
        if state.prompt is None and state.queue:
            # The agent never heard of this turn, so there is nothing to confirm.
            state.queue.pop(0)
            return self._turn_over(TurnEnded("cancelled"))
        return self._asks.refuse()

    def _close(self) -> list[Action]:
        if self._state.stdin_closed:
            return []
        self._state.stdin_closed = True
        return [CloseStdin()]

    def _fail(self, error: dict[str, Any]) -> list[Action]:
        """The session cannot be had: say so for each prompt, let the agent go."""
        state = self._state
        state.phase, state.failure = FAILED, error
        state.requests.clear()
        timers: list[Action] = [SetTimer(name, None) for name in HANDSHAKE_TIMERS]
        return [*timers, *self._asks.settle(), *self._end_all(), *self._close()]

    def _end_all(self) -> list[Action]:
        """End the running prompt and those that wait with the failure."""
        state = self._state
        turns = len(state.queue) + (state.prompt is not None)
        state.prompt = None
        state.queue.clear()
        return [failing.failed(state.failure or _OVER) for _ in range(turns)]

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
        except Refused as refused:
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
