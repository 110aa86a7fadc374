"""From the first frame to a session that takes prompts.

Every function takes the state one step further and returns what to do, or raises
`Refused` with the error that ends the conversation.
"""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp import messages, options
from coachman_adapters.acp.calls import Refused, call, raise_error
from coachman_adapters.acp.frames import Response
from coachman_adapters.acp.state import CONFIGURING, INITIALIZING, OPENING, READY, State
from coachman_adapters.conversation import Action, AgentRequest, SessionKnown, SetTimer

INITIALIZE_LIMIT_S = 60.0
SESSION_LIMIT_S = 120.0
VERSION_CHARS = 100
MAX_WAYS, WAY_CHARS = 5, 100
_LIMITS_S = {"initialize": INITIALIZE_LIMIT_S, "session": SESSION_LIMIT_S}
_WAITING = {"initialize": (INITIALIZING,), "session": (OPENING, CONFIGURING)}


def greet(state: State) -> list[Action]:
    """Send the first request."""
    state.phase = INITIALIZING
    write = call(state, messages.INITIALIZE, messages.initialize())
    return [SetTimer("initialize", INITIALIZE_LIMIT_S), write]


def late(state: State, timer: str) -> None:
    """Raise where ``timer`` still limits something."""
    if state.phase in _WAITING.get(timer, ()):
        pending = ", ".join(state.requests.values())
        hint = f"; it said: {state.hint}" if state.hint else ""
        limit = f"{_LIMITS_S[timer]:.0f} s"
        raise Refused(f"the agent did not answer {pending} within {limit}{hint}", "agent_silent")


def initialized(state: State, request: AgentRequest, response: Response) -> list[Action]:
    """Read what the agent can, and open the session."""
    raise_error(response.error, state)
    result = response.result if isinstance(response.result, dict) else {}
    version = result.get("protocolVersion")
    # Some agents echo any number, so only our own counts.
    if str(version) != str(messages.PROTOCOL_VERSION):
        message = f"the agent speaks ACP version {str(version)[:20]}, coachman speaks 1"
        raise Refused(message, "protocol_version")
    _read_agent(state, result)
    timers: list[Action] = [SetTimer("initialize", None), SetTimer("session", SESSION_LIMIT_S)]
    return [*timers, *_open(state, request)]


def _read_agent(state: State, result: Mapping[str, Any]) -> None:
    info, able = result.get("agentInfo"), result.get("agentCapabilities")
    if isinstance(info, dict) and isinstance(info.get("version"), str):
        state.agent_version = info["version"][:VERSION_CHARS]
    state.capabilities = able if isinstance(able, dict) else {}
    methods = result.get("authMethods")
    named = [m for m in methods if isinstance(m, dict)] if isinstance(methods, list) else []
    ways = [str(method.get("name") or method.get("id")) for method in named[:MAX_WAYS]]
    state.login = [way[:WAY_CHARS] for way in ways]


def _open(state: State, request: AgentRequest) -> list[Action]:
    state.phase = OPENING
    if request.session is None:
        return [call(state, messages.SESSION_NEW, messages.session_new(request.cwd))]
    able = state.capabilities.get("sessionCapabilities")
    # Resuming does not repeat the past, so it goes before loading.
    if isinstance(able, dict) and able.get("resume") is not None:
        method = messages.SESSION_RESUME
    elif state.capabilities.get("loadSession") is True:
        method = messages.SESSION_LOAD
    else:
        message = "cannot resume the session: the agent neither resumes nor loads sessions"
        raise Refused(message, "cannot_resume")
    return [call(state, method, messages.session_again(request.session, request.cwd))]


def opened(state: State, request: AgentRequest, response: Response) -> list[Action]:
    """Take the session, then set what the run asked for."""
    wanted = request.session
    doing = "cannot open a session" if wanted is None else f"cannot resume session {wanted}"
    raise_error(response.error, state, doing)
    result = response.result if isinstance(response.result, dict) else {}
    session = result.get("sessionId") or wanted
    if not texts.is_id(session):
        raise Refused("cannot open a session: the agent did not name it", "no_session")
    if wanted is not None and session != wanted:
        known = SessionKnown(session, state.agent_version)
        raise Refused(f"{doing}: the agent opened {session} instead", "other_session", known)
    state.session, state.options = session, options.offered(result)
    state.phase = CONFIGURING
    asked = (
        (options.MODE, request.as_agent),
        (options.MODEL, request.model),
        (options.EFFORT, request.effort),
    )
    state.to_set = [[category, value] for category, value in asked if value]
    return [SessionKnown(session, state.agent_version), *_configure(state)]


def configured(state: State, request: AgentRequest, response: Response) -> list[Action]:
    """Go on with the next option; the answer lists them all anew."""
    raise_error(response.error, state, _doing(state))
    state.options = options.offered(response.result) or state.options
    return _configure(state)


def _doing(state: State) -> str:
    category, wanted = state.setting or ("an option", "")
    return f"cannot set {category.replace('thought_level', 'effort')} to {wanted!r}"


def _configure(state: State) -> list[Action]:
    while state.to_set:
        state.setting = state.to_set.pop(0)
        write = _set(state, *state.setting)
        if write is not None:
            return [write]
    state.setting, state.phase = None, READY
    state.options = options.brief(state.options)
    return [SetTimer("session", None)]


def _set(state: State, category: str, wanted: str) -> Action | None:
    """The request that sets one option, or None where it is set already."""
    session = str(state.session)
    option = options.find(state.options, category)
    if option is None and category == options.MODEL:
        return call(state, messages.SET_MODEL, messages.set_model(session, wanted))
    if option is None:
        raise Refused(f"{_doing(state)}: the agent does not offer it", "not_offered")
    value = options.value_for(option, wanted)
    if value == option.get("currentValue"):
        return None
    params = messages.set_option(session, str(option["id"]), value)
    return call(state, messages.SET_OPTION, params)
