"""From the first frame to a thread that takes prompts.

Each step takes the state further and returns what to do, or raises `NoSessionError`.
"""

import re
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp.frames import Response
from coachman_adapters.codex import frames, messages
from coachman_adapters.codex.state import OPENING, State
from coachman_adapters.conversation import Action, AgentRequest, SessionKnown, SetTimer, Write
from coachman_adapters.opening import NoSessionError
from coachman_adapters.turn_state import READY

TIMER = "handshake"
INITIALIZE_LIMIT_S = 60.0
# MCP servers of the user's configuration start with the thread.
OPEN_LIMIT_S = 120.0
_VERSION = re.compile(r"[^/]*/([0-9][0-9A-Za-z.+-]{0,60})")


def greet(state: State) -> list[Action]:
    """Send the first request."""
    write = state.call(messages.INITIALIZE, messages.initialize())
    return [SetTimer(TIMER, INITIALIZE_LIMIT_S), write]


def late(state: State) -> NoSessionError | None:
    """Why the conversation ends, where the thread is still not there."""
    if state.phase == READY:
        return None
    pending = ", ".join(state.requests.values())
    text = f"the agent did not answer {pending} in time" + (f": {state.hint}" if state.hint else "")
    return NoSessionError(text, "agent_silent")


def initialized(state: State, request: AgentRequest, response: Response) -> list[Action]:
    """Open the thread."""
    if response.error is not None:
        raise NoSessionError.reported(response.error)
    told = response.result if isinstance(response.result, dict) else {}
    version = _VERSION.match(str(told.get("userAgent"))[:200])
    state.version = version[1] if version else None
    state.phase = OPENING
    return [
        SetTimer(TIMER, OPEN_LIMIT_S),
        Write(frames.notification(messages.INITIALIZED)),
        state.call(*messages.thread(request)),
    ]


def opened(state: State, request: AgentRequest, response: Response) -> list[Action]:
    """Take the thread, unless it is another than was asked for."""
    wanted = request.session
    doing = "cannot open a session" if wanted is None else f"cannot resume session {wanted}"
    if response.error is not None:
        raise NoSessionError.reported(
            {**response.error, "message": f"{doing}: {response.error['message']}"}
        )
    told = response.result if isinstance(response.result, dict) else {}
    thread = told.get("thread")
    session = thread.get("id") if isinstance(thread, dict) else None
    if not texts.is_id(session):
        raise NoSessionError(f"{doing}: the agent did not name it", "no_session")
    known = SessionKnown(session, state.version)
    if wanted is not None and session != wanted:
        text = f"{doing}: the agent opened {session} instead"
        raise NoSessionError(text, "other_session", known)
    state.session, state.phase = session, READY
    state.model, state.provider = _name(told.get("model")), _name(told.get("modelProvider"))
    return [known, SetTimer(TIMER, None)]


def _name(value: Any) -> str | None:
    return value if texts.is_id(value) and value else None
