"""``codex app-server``: a thread that is prompted, answered and interrupted, turn by turn.

    initializing -> opening -> ready    (prompts run one by one)
            \\__________\\-> failed      (every prompt gets the error)

A turn ends with ``turn/completed``. An interrupted one leaves its commands running in the
background; they are ended before its end is told. Timers: "handshake", "clean".
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from coachman_adapters import failing, texts
from coachman_adapters.acp.frames import Notification, Request, Response
from coachman_adapters.acp.tools import Tools
from coachman_adapters.codex import failures, frames, handshake, messages, tokens
from coachman_adapters.codex.asks import Asks
from coachman_adapters.codex.handshake import Refused
from coachman_adapters.codex.items import Items
from coachman_adapters.codex.notifications import Notifications
from coachman_adapters.codex.state import FAILED, READY, State
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    Answer,
    CloseStdin,
    Ending,
    Intent,
    Prompt,
    SetTimer,
    Span,
    TurnEnded,
)
from coachman_adapters.endings import exited
from coachman_adapters.lines import Line, LineDecoder
from coachman_adapters.noises import Noises

CLEAN_TIMER = "clean"
CLEAN_LIMIT_S = 5.0
_OVER = {"message": "the run takes no more prompts", "code": "closed"}


class ServerConversation:
    """One attempt's dialogue with codex's app server."""

    def __init__(self, request: AgentRequest) -> None:
        self._request = request
        self._decoder = LineDecoder()
        self._adopt(State(before=tokens.baseline(request)))

    def __repr__(self) -> str:
        state = self._state
        turn = f", turn {state.turn}" if state.prompted else ""
        return f"<ServerConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Greet codex."""
        return handshake.greet(self._state)

    def receive(self, data: bytes) -> list[Action]:
        """Handle the frames that ``data`` completes."""
        return self._lines(self._decoder.feed(data))

    def intend(self, intent: Intent) -> list[Action]:
        """Take a prompt, an answer or a cancel."""
        state = self._state
        if isinstance(intent, Prompt):
            state.queue.append(intent.text)
            over = state.phase == FAILED or state.closing
            return self._end_all() if over else self._prompt()
        if isinstance(intent, Answer):
            return self._asks.answer(intent)
        return self._cancel()

    def expire(self, timer: str) -> list[Action]:
        """A timer ran out."""
        if timer == CLEAN_TIMER:
            return self._cleaned()
        refused = handshake.late(self._state)
        return self._fail(refused) if refused else []

    def finish(self, ending: Ending) -> list[Action]:
        """codex is gone: settle what is open."""
        state = self._state
        actions = self._lines(self._decoder.finish())
        actions += [*self._noises.flush(), *self._asks.forget()]
        if state.phase != FAILED:
            state.phase = FAILED
            state.failure = exited("agent", ending, "before its turn was over", state.hint)
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
        items = Items(self._tools, state.told)
        self._asks = Asks(state, self._tools)
        self._notifications = Notifications(state, self._request, items)
        self._noises = Noises(state)

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
            state = self._state
            refuse = state.cancelled or state.closing or state.phase == FAILED
            return self._asks.request(frame, line.span, refuse)
        return self._told(frame, line.span)

    def _response(self, response: Response, span: Span) -> list[Action]:
        # An id that was answered before, or never sent, settles nothing.
        method = self._state.requests.pop(str(response.id), None)
        step = _STEPS.get(str(method))
        if step is None:
            return []
        try:
            return step(self, response, span)
        except Refused as refused:
            return self._fail(refused)

    def _initialized(self, response: Response, _span: Span) -> list[Action]:
        return handshake.initialized(self._state, self._request, response)

    def _opened(self, response: Response, _span: Span) -> list[Action]:
        return handshake.opened(self._state, self._request, response) + self._prompt()

    def _told(self, notification: Notification, span: Span) -> list[Action]:
        params = notification.params
        turn = _TURNS.get(notification.method)
        if turn is None:
            if notification.method == "serverRequest/resolved":
                return self._asks.resolved(params.get("requestId"))
            return self._notifications.tell(notification.method, params, span)
        given = params.get("turn")
        told = given if isinstance(given, dict) else {}
        return turn(self, told, span) if params.get("threadId") == self._state.session else []

    # --- turns ----------------------------------------------------------------------

    def _prompt(self) -> list[Action]:
        """Send the next prompt; codex would add a second one to the turn that runs."""
        state = self._state
        if state.phase != READY or state.prompted or not state.queue:
            return []
        state.prompted = True
        params = messages.turn(str(state.session), state.queue.pop(0), self._request.effort)
        return [state.call(messages.TURN_START, params)]

    def _accepted(self, response: Response, span: Span) -> list[Action]:
        if not self._state.prompted or self._state.turn is not None:
            return []
        if response.error is not None:
            error = texts.fit({**response.error}, span.size)
            cancelled = self._state.cancelled
            return self._over(TurnEnded("cancelled") if cancelled else failing.failed(error))
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
        return self._interrupt() if state.cancelled else []

    def _completed(self, turn: Mapping[str, Any], span: Span) -> list[Action]:
        state = self._state
        if state.turn is None or turn.get("id") != state.turn:
            return []
        state.turn, state.running = None, False
        status = turn.get("status")
        if status == "interrupted":
            return self._clean()
        if state.cancelled:
            return self._over(TurnEnded("cancelled"))
        if status == "completed":
            return self._over(TurnEnded("end_turn"))
        ended, notices = failures.turn_failed(turn.get("error"), span)
        return [*notices, *self._over(ended)]

    def _cancel(self) -> list[Action]:
        state = self._state
        if state.prompted and not state.cancelled:
            state.cancelled = True
            # It is refused until codex has begun with the turn.
            return [*self._asks.refuse(), *(self._interrupt() if state.running else [])]
        if not state.prompted and state.queue:
            # codex never heard of this turn, so there is nothing to confirm.
            state.queue.pop(0)
            return self._over(TurnEnded("cancelled"))
        return self._asks.refuse()

    def _interrupt(self) -> list[Action]:
        params = messages.interrupt(str(self._state.session), str(self._state.turn))
        return [self._state.call(messages.TURN_INTERRUPT, params)]

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
        return self._over(TurnEnded("cancelled"))

    def _over(self, ended: TurnEnded) -> list[Action]:
        state = self._state
        actions = self._asks.settle()
        if ended.stop_reason == "cancelled":
            actions += self._tools.close("cancelled")
        state.prompted = state.cancelled = False
        state.turn, state.running, state.hint = None, False, None
        state.told.clear()
        state.patches.clear()
        actions.append(ended)
        if self._request.keep:
            return actions + self._prompt()
        state.closing = True
        return actions + self._close()

    # --- ends -----------------------------------------------------------------------

    def _fail(self, refused: Refused) -> list[Action]:
        """There is no thread: say so for each prompt, let codex go."""
        state = self._state
        state.phase, state.failure = FAILED, refused.error
        state.requests.clear()
        timer = SetTimer(handshake.TIMER, None)
        return [timer, *refused.told, *self._asks.settle(), *self._end_all(), *self._close()]

    def _end_all(self) -> list[Action]:
        """End the running turn and the prompts that wait with the failure."""
        state = self._state
        turns = len(state.queue) + state.prompted
        ended = [failing.failed(state.failure or _OVER) for _ in range(turns)]
        if state.interrupted and state.cancelled:
            ended[0] = TurnEnded("cancelled")
        state.prompted = state.interrupted = False
        state.turn = None
        state.queue.clear()
        return [*ended]

    def _close(self) -> list[Action]:
        if self._state.stdin_closed:
            return []
        self._state.stdin_closed = True
        return [CloseStdin()]


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
