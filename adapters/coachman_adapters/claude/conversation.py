"""Claude Code's stream-json dialogue with its control protocol, as a pure state machine.

    new -> initializing -> ready   (prompts run one by one)
                 \\-> failed        (every prompt gets the error)

Both sides write one JSON object a line. Control requests go both ways and are answered by id; a
prompt's end is its ``result`` line. The session has no name before the first prompt.
"""

import copy
from collections.abc import Mapping
from typing import Any

from coachman_adapters import failing, jsonlines, texts
from coachman_adapters.acp.tools import Tools
from coachman_adapters.claude import accounts, frames, handshake, notices, results, told
from coachman_adapters.claude.asks import Asks
from coachman_adapters.claude.state import FAILED, READY, State
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

# What may come and says nothing that anybody needs.
_QUIET = frozenset({"keep_alive", "prompt_suggestion", "tool_use_summary", "auth_status"})
_OVER = {"message": "the run takes no more prompts", "code": "closed"}
_SILENT = {
    "message": f"the agent did not answer within {handshake.INITIALIZE_S:.0f} s",
    "code": "agent_silent",
}


class ClaudeConversation:
    """One attempt's dialogue with Claude Code over stdio."""

    def __init__(self, request: AgentRequest) -> None:
        self._request = request
        self._decoder = LineDecoder()
        self._adopt(State())

    def __repr__(self) -> str:
        state = self._state
        turn = ", in a turn" if state.running else ""
        return f"<ClaudeConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Greet the agent."""
        return handshake.begin(self._state, self._request)

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
        """The agent was silent for too long."""
        return [] if self._state.phase in (READY, FAILED) else self._fail(dict(_SILENT))

    def finish(self, ending: Ending) -> list[Action]:
        """The agent is gone: settle what is open."""
        state = self._state
        actions = self._lines(self._decoder.finish())
        actions += [*self._noises.flush(), *self._asks.forget()]
        if state.phase != FAILED:
            state.phase = FAILED
            state.failure = exited("agent", ending, "before its turn was over")
        return actions + self._end_all()

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
        self._asks = Asks(state, self._tools)
        self._noises = Noises(state)

    # --- lines ----------------------------------------------------------------------

    def _lines(self, lines: list[Line]) -> list[Action]:
        actions: list[Action] = []
        for line in lines:
            if line.data is None or line.data.strip():
                actions += self._line(line)
        return actions

    def _line(self, line: Line) -> list[Action]:
        frame = jsonlines.decode(line.data) if line.data is not None else None
        # A line's members come in any order: its type need not be the first.
        kind = frame.get("type") if frame is not None else None
        if frame is None or not isinstance(kind, str):
            return [*self._noises.hear(line)]
        return self._frame(kind, frame, line.span)

    def _frame(self, kind: str, frame: Mapping[str, Any], span: Span) -> list[Action]:
        state, tools = self._state, self._tools
        match kind:
            case "stream_event":
                return self._streamed(frame, span)
            case "assistant":
                return [*told.assistant(state, tools, frame, span)]
            case "user":
                return [*told.user(tools, frame, span)]
            case "result":
                return self._result(frame, span)
            case "control_response":
                return self._responded(frame.get("response"), span)
            case "control_request":
                return self._requested(frame, span)
            case "control_cancel_request":
                return self._asks.take_back(frame.get("request_id"))
        return self._aside(kind, frame, span)

    def _streamed(self, frame: Mapping[str, Any], span: Span) -> list[Action]:
        event = frame.get("event")
        used = accounts.request(self._state, event) if isinstance(event, dict) else []
        return [*told.streamed(self._state, frame, span), *used]

    def _aside(self, kind: str, frame: Mapping[str, Any], span: Span) -> list[Action]:
        """What is neither said by the model nor asked of us."""
        if kind == "system" and frame.get("subtype") == "init":
            return handshake.opened(self._state, frame)
        if kind == "system":
            return [*notices.system(frame, span)]
        if kind == "tool_progress" and texts.is_id(frame.get("tool_use_id")):
            return [*self._tools.begin(frame["tool_use_id"])]
        info = frame.get("rate_limit_info")
        if kind == "rate_limit_event" and isinstance(info, dict):
            self._state.limit = texts.fit(info, span.size)
            return [*notices.limit(info, span)]
        return [] if kind in _QUIET else [notices.unknown(frame, span)]

    # --- control requests -----------------------------------------------------------

    def _responded(self, response: Any, span: Span) -> list[Action]:
        """An answer of ours that is not awaited settles nothing."""
        answer = response if isinstance(response, dict) else {}
        subtype = self._state.requests.pop(str(answer.get("request_id")), None)
        if subtype != frames.INITIALIZE:
            return []
        failure = handshake.refusal(answer, self._request)
        if failure is not None:
            return self._fail(failure)
        return [*handshake.ready(self._state, answer, span), *self._prompt()]

    def _requested(self, frame: Mapping[str, Any], span: Span) -> list[Action]:
        number, request = frame.get("request_id"), frame.get("request")
        if not texts.is_id(number) or not isinstance(request, dict):
            return [notices.unknown(frame, span)]
        subtype = request.get("subtype")
        if subtype == "can_use_tool":
            return self._asks.request(number, request, span)
        why = f"coachman does not serve {str(subtype)[:100]}"
        return [notices.unknown(frame, span), frames.refuse(number, why)]

    # --- turns ----------------------------------------------------------------------

    def _queue(self, text: str) -> list[Action]:
        state = self._state
        state.queue.append(text)
        over = state.phase == FAILED or state.closing
        return self._end_all() if over else self._prompt()

    def _prompt(self) -> list[Action]:
        """Send the next prompt, one at a time: each has a result of its own then."""
        state = self._state
        if state.phase != READY or state.running or not state.queue:
            return []
        state.running, state.api_error = True, None
        return [frames.prompt(state.queue.pop(0))]

    def _result(self, result: Mapping[str, Any], span: Span) -> list[Action]:
        state = self._state
        if state.phase not in (READY, FAILED):
            # It ends without an answer to our greeting, and calls the session by our name.
            doing = f"cannot resume session {self._request.session}"
            error = results.error(result, state, doing if self._request.session else "")
            return self._fail({**error, "code": "cannot_resume"})
        named = result.get("uuid")
        if texts.is_id(named) and named == state.last_result:
            return []
        state.last_result = named if texts.is_id(named) else None
        used = accounts.turn(state, result, self._request.session is not None)
        if not state.running or not results.is_prompted(result):
            return used
        return [*used, *self._turn_over(results.ended(result, state))]

    def _turn_over(self, ended: TurnEnded) -> list[Action]:
        state = self._state
        actions = self._asks.forget()
        if ended.stop_reason == "cancelled":
            actions += self._tools.close("cancelled")
        state.running, state.cancelled = False, False
        actions.append(ended)
        if self._request.keep:
            return actions + self._prompt()
        state.closing = True
        return actions + self._close()

    def _cancel(self) -> list[Action]:
        state = self._state
        if state.running and not state.cancelled:
            state.cancelled = True
            # It withdraws its questions itself.
            state.asks.clear()
            return [frames.control(state, frames.INTERRUPT)]
        if not state.running and state.queue:
            # The agent never heard of this turn, so there is nothing to confirm.
            state.queue.pop(0)
            return self._turn_over(TurnEnded("cancelled"))
        return []

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
        return [SetTimer("initialize", None), *self._end_all(), *self._close()]

    def _end_all(self) -> list[Action]:
        """End the running prompt and those that wait with the failure."""
        state = self._state
        turns = len(state.queue) + state.running
        state.running = False
        state.queue.clear()
        return [failing.failed(state.failure or _OVER) for _ in range(turns)]
