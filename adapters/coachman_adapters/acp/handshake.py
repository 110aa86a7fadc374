"""From the first frame to a session that takes prompts.

Every function takes the state one step further and returns what to do, or raises
`NoSessionError` with the error that ends the conversation.
"""

import re
from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp import configuring, frames, messages, options
from coachman_adapters.acp.calls import call, raise_error
from coachman_adapters.acp.frames import Response
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.acp.state import CONFIGURING, INITIALIZING, OPENING, REPLAYING, State
from coachman_adapters.conversation import Action, AgentRequest, SessionKnown, SetTimer
from coachman_adapters.opening import NoSessionError

INITIALIZE_LIMIT_S = 60.0
SESSION_LIMIT_S = 120.0
VERSION_CHARS = 100
MAX_WAYS, WAY_CHARS = 5, 100
_LIMITS_S = {"initialize": INITIALIZE_LIMIT_S, "session": SESSION_LIMIT_S}
_WAITING = {"initialize": (INITIALIZING,), "session": (OPENING, REPLAYING, CONFIGURING)}


def greet(state: State, request: AgentRequest) -> list[Action]:
    """Send the first request."""
    state.phase = INITIALIZING
    write = call(state, messages.INITIALIZE, messages.initialize(forms=request.words))
    return [SetTimer("initialize", INITIALIZE_LIMIT_S), write]


def late(state: State, timer: str) -> None:
    """Raise where ``timer`` still limits something."""
    if state.phase in _WAITING.get(timer, ()):
        pending = ", ".join(state.requests.values())
        hint = f"; it said: {state.hint}" if state.hint else ""
        limit = f"{_LIMITS_S[timer]:.0f} s"
        raise NoSessionError(
            f"the agent did not answer {pending} within {limit}{hint}", "agent_silent"
        )


def initialized(
    state: State, request: AgentRequest, quirks: Quirks, response: Response
) -> list[Action]:
    """Read what the agent can, and open the session."""
    raise_error(response.error, state)
    result = response.result if isinstance(response.result, dict) else {}
    version = result.get("protocolVersion")
    # Some agents echo any number, so only our own counts.
    if str(version) != str(messages.PROTOCOL_VERSION):
        message = f"the agent speaks ACP version {str(version)[:20]}, coachman speaks 1"
        raise NoSessionError(message, "protocol_version")
    _read_agent(state, result)
    timers: list[Action] = [SetTimer("initialize", None), SetTimer("session", SESSION_LIMIT_S)]
    return [*timers, *_open(state, request, quirks)]


def _read_agent(state: State, result: Mapping[str, Any]) -> None:
    info, able = result.get("agentInfo"), result.get("agentCapabilities")
    if isinstance(info, dict) and isinstance(info.get("version"), str):
        state.agent_version = info["version"][:VERSION_CHARS]
    state.capabilities = able if isinstance(able, dict) else {}
    methods = result.get("authMethods")
    named = [m for m in methods if isinstance(m, dict)] if isinstance(methods, list) else []
    ways = [str(method.get("name") or method.get("id")) for method in named[:MAX_WAYS]]
    state.login = [way[:WAY_CHARS] for way in ways]


def _open(state: State, request: AgentRequest, quirks: Quirks) -> list[Action]:
    state.phase = OPENING
    wanted = request.session
    if wanted is None:
        return [call(state, messages.SESSION_NEW, messages.session_new(request.cwd))]
    if quirks.session_form and not re.fullmatch(quirks.session_form, wanted):
        message = f"cannot resume session {wanted}: this agent's sessions have no such ids"
        raise NoSessionError(message, "no_session")
    method = _again(state)
    if method is None:
        message = "cannot resume the session: the agent neither resumes nor loads sessions"
        raise NoSessionError(message, "cannot_resume")
    return [call(state, method, messages.session_again(wanted, request.cwd))]


def _again(state: State) -> str | None:
    """How a session is taken up again; None where it cannot be."""
    able = state.capabilities.get("sessionCapabilities")
    # Resuming does not repeat the past, so it goes before loading.
    if isinstance(able, dict) and able.get("resume") is not None:
        return messages.SESSION_RESUME
    return messages.SESSION_LOAD if state.capabilities.get("loadSession") is True else None


def opened(state: State, request: AgentRequest, quirks: Quirks, response: Response) -> list[Action]:
    """Take the session, then set what the run asked for."""
    login = _login(state, request, quirks, response)
    if login is not None:
        return [call(state, messages.AUTHENTICATE, messages.authenticate(login))]
    wanted = request.session
    doing = "cannot open a session" if wanted is None else f"cannot resume session {wanted}"
    raise_error(response.error, state, doing)
    result = response.result if isinstance(response.result, dict) else {}
    session = result.get("sessionId") or wanted
    if not texts.is_id(session):
        raise NoSessionError("cannot open a session: the agent did not name it", "no_session")
    if wanted is not None and session != wanted:
        known = SessionKnown(session, state.agent_version)
        raise NoSessionError(f"{doing}: the agent opened {session} instead", "other_session", known)
    state.session, state.options = session, options.offered(result)
    state.mode = configuring.current_mode(result)
    known_session = SessionKnown(session, state.agent_version)
    if quirks.replay_s and wanted is not None and _again(state) == messages.SESSION_LOAD:
        state.phase = REPLAYING
        return [known_session, SetTimer("replay", quirks.replay_s)]
    return [known_session, *configuring.begin(state, request, quirks)]


def _login(state: State, request: AgentRequest, quirks: Quirks, response: Response) -> str | None:
    """The way to log in with a credential that the agent has, where it wants to be asked to."""
    error = response.error or {}
    if error.get("code") != frames.AUTH_REQUIRED or state.authenticated:
        return None
    return next((quirks.logins[name] for name in quirks.logins if name in request.env_names), None)


def authenticated(
    state: State, request: AgentRequest, quirks: Quirks, response: Response
) -> list[Action]:
    """Open the session anew."""
    raise_error(response.error, state, "cannot log in")
    state.authenticated = True
    return _open(state, request, quirks)


def replayed(state: State, request: AgentRequest, quirks: Quirks) -> list[Action]:
    """Silence after a load: its past is told, what comes now is new."""
    if state.phase != REPLAYING:
        return []
    return configuring.begin(state, request, quirks)
