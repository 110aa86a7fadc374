"""Opening: the session, the model and the effort that pi starts with, before any prompt."""

import re
from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.conversation import Action, AgentRequest, SessionKnown, SetTimer
from coachman_adapters.opening import NoSessionError
from coachman_adapters.pi import commands
from coachman_adapters.pi.state import State
from coachman_adapters.turn_state import READY

TIMER = "session"
LIMIT_S = 60.0
# pi would also take a path, or the first part of an id, for a session.
_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
LEVELS = {
    "none": "off",
    **{effort: effort for effort in ("minimal", "low", "medium", "high", "xhigh", "max")},
}
_EFFORTS = {level: effort for effort, level in LEVELS.items()}


def is_session(session: str) -> bool:
    """Whether ``session`` has the form of an id."""
    return _ID.fullmatch(session) is not None and not session.endswith(".jsonl")


def greet(state: State, request: AgentRequest) -> list[Action]:
    """Ask what pi opened. Raises NoSessionError for what is no session's id."""
    if request.session is not None and not is_session(request.session):
        message = f"cannot resume session {request.session[:100]}: that is no id of a session"
        raise NoSessionError(message, "cannot_resume")
    return [SetTimer(TIMER, LIMIT_S), commands.command(state, commands.GET_STATE)]


def opened(state: State, request: AgentRequest, told: Mapping[str, Any]) -> list[Action]:
    """Take the session, unless it is another than was asked for."""
    wanted, session = request.session, told.get("sessionId")
    if not texts.is_id(session) or not session:
        raise NoSessionError("cannot open a session: the agent did not name it", "no_session")
    _read_model(state, told.get("model"))
    known = SessionKnown(session)
    if wanted is not None and session != wanted:
        message = f"cannot resume session {wanted}: the agent opened {session} instead"
        raise NoSessionError(message, "other_session", known)
    level = LEVELS.get(request.effort) if request.effort else None
    if level is not None and told.get("thinkingLevel") != level:
        return [known, commands.command(state, commands.GET_EFFORTS)]
    state.phase = READY
    return [known, SetTimer(TIMER, None)]


def not_offered(state: State, request: AgentRequest, told: Mapping[str, Any]) -> NoSessionError:
    """pi takes the nearest effort that the model has, silently; we name those that it has."""
    given = told.get("levels")
    levels = [level for level in given if isinstance(level, str)] if isinstance(given, list) else []
    offered = ", ".join(_EFFORTS.get(level, level) for level in levels) or "none"
    message = f"cannot set effort to {request.effort!r}: {state.model} takes {offered}"
    return NoSessionError(message, "not_offered")


def _read_model(state: State, model: Any) -> None:
    if isinstance(model, Mapping) and texts.is_id(model.get("id")):
        state.model = model["id"]
        provider = model.get("provider")
        state.provider = provider if texts.is_id(provider) else None
