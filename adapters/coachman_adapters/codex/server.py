"""``codex app-server``: a thread that is prompted, answered and interrupted, turn by turn.

    initializing -> opening -> ready    (prompts run one by one)
            \\__________\\-> failed      (every prompt gets the error)

A turn ends with ``turn/completed``. An interrupted one leaves its commands running in the
background; they are ended before its end is told. Timers: "handshake", "clean".
"""

from collections.abc import Callable, Mapping
from typing import Any

from coachman_adapters import failing, texts
from coachman_adapters.acp.frames import Notification, Request, Response
from coachman_adapters.codex import failures, frames, handshake, messages, tokens
from coachman_adapters.codex.asks import Asks
from coachman_adapters.codex.items import Items
from coachman_adapters.codex.notifications import Notifications
from coachman_adapters.codex.state import State
from coachman_adapters.conversation import Action, AgentRequest, SetTimer, Span, TurnEnded
from coachman_adapters.lines import Line
from coachman_adapters.opening import NoSessionError
from coachman_adapters.turn_conversation import TurnConversation

CLEAN_TIMER = "clean"
CLEAN_LIMIT_S = 5.0


class ServerConversation(TurnConversation[State, Asks]):
    """One attempt's dialogue with codex's app server."""

    TIMERS = (handshake.TIMER,)

    def __init__(self, request: AgentRequest) -> None:
        super().__init__(request, State(before=tokens.baseline(request)))

    def __repr__(self) -> str:
        state = self._state
        turn = f", turn {state.turn}" if state.prompted else ""
        return f"<ServerConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Greet codex."""
        return handshake.greet(self._state)

    def expire(self, timer: str) -> list[Action]:
        """A timer ran out."""
        if timer == CLEAN_TIMER:
            return self._cleaned()
        refused = handshake.late(self._state)
        return self._refused(refused) if refused else []

    def _adopt(self, state: State) -> None:
        super()._adopt(state)
        items = Items(self._tools, state.told)
        self._asks = Asks(state, self._tools)
        self._notifications = Notifications(state, self._request, items)

    # --- frames ---------------------------------------------------------------------

    def _line(self, line: Line) -> list[Action]:
        frame = frames.decode(line.data) if line.data is not None else None
        if frame is None:
            return [*self._noises.hear(line)]
        if isinstance(frame, Response):
            return self._response(frame, line.span)
        if isinstance(frame, Request):
            return self._asks.request(frame, line.span, words=self._request.words)
        return self._told(frame, line.span)

    def _response(self, response: Response, span: Span) -> list[Action]:
        # An id that was answered before, or never sent, settles nothing.
        method = self._state.requests.pop(str(response.id), None)
        step = _STEPS.get(str(method))
        if step is None:
            return []
        try:
            return step(self, response, span)
        except NoSessionError as refused:
            return self._refused(refused)

    def _initialized(self, response: Response, _span: Span) -> list[Action]:
        return handshake.initialized(self._state, self._request, response)

    def _opened(self, response: Response, _span: Span) -> list[Action]:
        return handshake.opened(self._state, self._request, response) + self._prompt()

    def _told(self, notification: Notification, span: Span) -> list[Action]:
        params = notification.params
        turn = _TURNS.get(notification.method)
        if turn is None:
            if notification.method == "serverRequest/resolved":
                return self._asks.take_back(params.get("requestId"))
            return self._notifications.tell(notification.method, params, span)
        given = params.get("turn")
        told = given if isinstance(given, dict) else {}
        return turn(self, told, span) if params.get("threadId") == self._state.session else []

    # --- turns ----------------------------------------------------------------------

    @property
    def _is_prompted(self) -> bool:
        return self._state.prompted

    def _send(self, text: str) -> list[Action]:
        state = self._state
        state.prompted = True
        params = messages.turn(str(state.session), text, self._request.effort)
        return [state.call(messages.TURN_START, params)]

    def _accepted(self, response: Response, span: Span) -> list[Action]:
        if not self._state.prompted or self._state.turn is not None:
            return []
        if response.error is not None:
            error = texts.fit({**response.error}, span.size)
            cancelled = self._state.cancelled
            return self._turn_over(TurnEnded("cancelled") if cancelled else failing.failed(error))
        result = response.result if isinstance(response.result, dict) else {}
        turn = result.get("turn")
        return self._know(turn if isinstance(turn, dict) else {})

    def _know(self, turn: Mapping[str, Any]) -> list[Action]:
        state, identity = self._state, turn.get("id")
        fresh = texts.is_id(identity) and identity not in state.turns
        if state.prompted and state.turn is None and fresh:
            state.turn = identity
            state.turns.append(str(identity))
        return []

    def _runs(self, turn: Mapping[str, Any], _span: Span) -> list[Action]:
        self._know(turn)
        state = self._state
        if turn.get("id") != state.turn or state.turn is None or state.running:
            return []
        state.running = True
        return [self._stop()] if state.cancelled else []

    def _completed(self, turn: Mapping[str, Any], span: Span) -> list[Action]:
        state = self._state
        if state.turn is None or turn.get("id") != state.turn:
            return []
        state.turn, state.running = None, False
        status = turn.get("status")
        if status == "interrupted":
            return self._clean()
        if state.cancelled:
            return self._turn_over(TurnEnded("cancelled"))
        if status == "completed":
            return self._turn_over(TurnEnded("end_turn"))
        ended, notices = failures.turn_failed(turn.get("error"), span)
        return [*notices, *self._turn_over(ended)]

    def _interrupt(self) -> list[Action]:
        # It is refused until codex has begun with the turn.
        return [*self._asks.refuse(), *([self._stop()] if self._state.running else [])]

    def _stop(self) -> Action:
        params = messages.interrupt(str(self._state.session), str(self._state.turn))
        return self._state.call(messages.TURN_INTERRUPT, params)

    def _clean(self) -> list[Action]:
        """End what the interrupted turn left running, before its end is told."""
        self._state.interrupted = True
        call = self._state.call(messages.CLEAN, messages.clean(str(self._state.session)))
        return [*self._asks.settle(), call, SetTimer(CLEAN_TIMER, CLEAN_LIMIT_S)]

    def _swept(self, _response: Response, _span: Span) -> list[Action]:
        return [SetTimer(CLEAN_TIMER, None), *self._cleaned()]

    def _cleaned(self) -> list[Action]:
        if not self._state.interrupted:
            return []
        self._state.interrupted = False
        return self._turn_over(TurnEnded("cancelled"))

    def _forget_turn(self) -> None:
        state = self._state
        state.prompted = state.interrupted = False
        state.turn, state.running, state.hint = None, False, None
        state.told.clear()
        state.patches.clear()

    # --- ends -----------------------------------------------------------------------

    def _refused(self, refused: NoSessionError) -> list[Action]:
        """There is no thread."""
        return [*refused.told, *self._fail(refused.error)]

    def _end_all(self) -> list[Action]:
        confirmed = self._state.interrupted and self._state.cancelled
        ended = super()._end_all()
        return [TurnEnded("cancelled"), *ended[1:]] if confirmed else ended


_STEPS: Mapping[str, Callable[[ServerConversation, Response, Span], list[Action]]] = {
    messages.INITIALIZE: ServerConversation._initialized,
    messages.THREAD_START: ServerConversation._opened,
    messages.THREAD_RESUME: ServerConversation._opened,
    messages.TURN_START: ServerConversation._accepted,
    messages.CLEAN: ServerConversation._swept,
}
_TURNS: Mapping[str, Callable[[ServerConversation, Mapping[str, Any], Span], list[Action]]] = {
    "turn/started": ServerConversation._runs,
    "turn/completed": ServerConversation._completed,
}
