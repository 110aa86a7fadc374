"""From the start to the first prompt: what the CLI offers, and whether it is what was asked for."""

import re
from collections.abc import Mapping
from typing import Any

from coachman_adapters import events, texts
from coachman_adapters.claude import frames
from coachman_adapters.claude.state import INITIALIZING, State
from coachman_adapters.conversation import (
    Action,
    AgentRequest,
    CloseStdin,
    Event,
    SessionKnown,
    SetTimer,
    Span,
)
from coachman_adapters.turn_state import FAILED, READY

INITIALIZE_S = 60.0
DESCRIPTION_CHARS = 120
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_session(name: str | None) -> bool:
    """Whether ``name`` can be a session's id: the CLI would take other words for a title."""
    return name is not None and _UUID.fullmatch(name) is not None


def begin(state: State, request: AgentRequest) -> list[Action]:
    """Greet the CLI; let it go at once where the session has no id."""
    if request.session is not None and not is_session(request.session):
        text = f"cannot resume session {request.session!r}: it is no id of Claude Code's"
        state.phase, state.stdin_closed = FAILED, True
        state.failure = {"message": text, "code": "no_session"}
        return [CloseStdin()]
    state.phase = INITIALIZING
    return [frames.control(state, frames.INITIALIZE), SetTimer("initialize", INITIALIZE_S)]


def refusal(response: Mapping[str, Any], request: AgentRequest) -> dict[str, Any] | None:
    """Why the session cannot be had as it was asked for; None where it can."""
    if response.get("subtype") != "success":
        said = str(response.get("error") or "it does not say why")[: texts.SMALL_STRING_CHARS]
        return {"message": f"the agent refused to begin: {said}", "code": "no_session"}
    # The CLI goes on without a word, as its default agent, where it does not know the name.
    agents = [each["name"] for each in _named(response, "agents")]
    if request.as_agent is None or request.as_agent in agents:
        return None
    message = f"cannot run as {request.as_agent!r}: the agent offers {', '.join(agents)}"
    return {"message": message, "code": "not_offered"}


def ready(state: State, response: Mapping[str, Any], span: Span) -> list[Action]:
    """It is there: tell the commands that it offers."""
    state.phase = READY
    commands = [
        {"name": each["name"], "description": str(each.get("description"))[:DESCRIPTION_CHARS]}
        for each in _named(response, "commands")
    ]
    told = Event(events.COMMANDS, texts.fit({"commands": commands}, span.size), span)
    return [SetTimer("initialize", None), *([told] if commands else [])]


def opened(state: State, frame: Mapping[str, Any]) -> list[Action]:
    """The CLI names its session, before each turn anew."""
    session, version = frame.get("session_id"), frame.get("claude_code_version")
    model = frame.get("model")
    state.model = model if texts.is_id(model) else state.model
    if not texts.is_id(session) or session == state.session:
        return []
    state.session = session
    return [SessionKnown(session, version if texts.is_id(version) else None)]


def _named(response: Mapping[str, Any], what: str) -> list[dict[str, Any]]:
    inner = response.get("response")
    listed = inner.get(what) if isinstance(inner, dict) else None
    items = listed if isinstance(listed, list) else []
    return [each for each in items if isinstance(each, dict) and texts.is_id(each.get("name"))]
