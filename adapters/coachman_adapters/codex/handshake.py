"""From the first frame to a thread that takes prompts.

Each step takes the state further and returns what to do, or raises `Refused`.
"""

import re
from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp.frames import Response
from coachman_adapters.codex import frames, messages
from coachman_adapters.codex.state import OPENING, State
from coachman_adapters.conversation import Action, AgentRequest, SessionKnown, SetTimer, Write
from coachman_adapters.turn_state import READY

TIMER = "handshake"
INITIALIZE_LIMIT_S = 60.0
# MCP servers of the user's configuration start with the thread.
OPEN_LIMIT_S = 120.0
_VERSION = re.compile(r"[^/]*/([0-9][0-9A-Za-z.+-]{0,60})")


class Refused(Exception):  # noqa: N818  a state of the dialogue, not a fault
    """There is no thread. ``error`` is the `TurnEnded` error to report, after ``told``."""

    def __init__(self, error: Mapping[str, Any], *told: Action) -> None:
        super().__init__(error["message"])
        self.told = told
        self.error = texts.fit(dict(error))


def greet(state: State) -> list[Action]:
    """Send the first request."""
    write = state.call(messages.INITIALIZE, messages.initialize())
    return [SetTimer(TIMER, INITIALIZE_LIMIT_S), write]


def late(state: State) -> Refused | None:
    """Why the conversation ends, where the thread is still not there."""
    if state.phase == READY:
        return None
    pending = ", ".join(state.requests.values())
    text = f"the agent did not answer {pending} in time" + (f": {state.hint}" if state.hint else "")
    return Refused({"message": text, "code": "agent_silent"})


def initialized(state: State, request: AgentRequest, response: Response) -> list[Action]:
    """Open the thread."""
    if response.error is not None:
        raise Refused(response.error)
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
        raise Refused({**response.error, "message": f"{doing}: {response.error['message']}"})
    told = response.result if isinstance(response.result, dict) else {}
    thread = told.get("thread")
    session = thread.get("id") if isinstance(thread, dict) else None
    if not texts.is_id(session):
        raise Refused({"message": f"{doing}: the agent did not name it", "code": "no_session"})
    known = SessionKnown(session, state.version)
    if wanted is not None and session != wanted:
        text = f"{doing}: the agent opened {session} instead"
        raise Refused({"message": text, "code": "other_session"}, known)
    state.session, state.phase = session, READY
    state.model, state.provider = _name(told.get("model")), _name(told.get("modelProvider"))
    return [known, SetTimer(TIMER, None)]


def _name(value: Any) -> str | None:
    return value if texts.is_id(value) and value else None
