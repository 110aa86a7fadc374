"""Claude Code's stream-json dialogue with its control protocol, as a pure state machine.

    new -> initializing -> ready   (prompts run one by one)
                 \\-> failed        (every prompt gets the error)

Both sides write one JSON object a line. Control requests go both ways and are answered by id; a
prompt's end is its ``result`` line. The session has no name before the first prompt.
"""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import jsonlines, texts
from coachman_adapters.claude import accounts, frames, handshake, notices, results, told
from coachman_adapters.claude.asks import Asks
from coachman_adapters.claude.state import State
from coachman_adapters.conversation import Action, AgentRequest, Span
from coachman_adapters.lines import Line
from coachman_adapters.turn_conversation import TurnConversation
from coachman_adapters.turn_state import FAILED, READY

# What may come and says nothing that anybody needs.
_QUIET = frozenset({"keep_alive", "prompt_suggestion", "tool_use_summary", "auth_status"})
_SILENT = {
    "message": f"the agent did not answer within {handshake.INITIALIZE_S:.0f} s",
    "code": "agent_silent",
}


class ClaudeConversation(TurnConversation[State, Asks]):
    """One attempt's dialogue with Claude Code over stdio."""

    TIMERS = ("initialize",)

    def __init__(self, request: AgentRequest) -> None:
        super().__init__(request, State())

    def __repr__(self) -> str:
        state = self._state
        turn = ", in a turn" if state.running else ""
        return f"<ClaudeConversation {state.phase}{turn}, {len(state.asks)} asked>"

    # --- the contract ---------------------------------------------------------------

    def start(self) -> list[Action]:
        """Greet the agent."""
        return handshake.begin(self._state, self._request)

    def expire(self, timer: str) -> list[Action]:
        """The agent was silent for too long."""
        return [] if self._state.phase in (READY, FAILED) else self._fail(dict(_SILENT))

    def _adopt(self, state: State) -> None:
        super()._adopt(state)
        self._asks = Asks(state, self._tools)

    # --- lines ----------------------------------------------------------------------

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

    @property
    def _is_prompted(self) -> bool:
        return self._state.running

    def _send(self, text: str) -> list[Action]:
        self._state.running, self._state.api_error = True, None
        return [frames.prompt(text)]

    def _interrupt(self) -> list[Action]:
        # The CLI withdraws its questions itself.
        self._state.asks.clear()
        return [frames.control(self._state, frames.INTERRUPT)]

    def _forget_turn(self) -> None:
        self._state.running = False

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
