"""From an open session to one that takes prompts: what the run asked for, one by one."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters.acp import messages, options
from coachman_adapters.acp.calls import call, raise_error
from coachman_adapters.acp.frames import Response
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.acp.state import CONFIGURING, State
from coachman_adapters.conversation import Action, AgentRequest, SetTimer
from coachman_adapters.opening import NoSessionError
from coachman_adapters.turn_state import READY


def begin(state: State, request: AgentRequest, quirks: Quirks) -> list[Action]:
    """Set the first option."""
    unasked = request.permissions == "allow" and not request.judged
    free = quirks.free_mode if unasked else None
    asked = (
        (options.MODE, request.as_agent or free or quirks.mode),
        (options.MODEL, request.model),
        (options.EFFORT, request.effort),
    )
    state.phase = CONFIGURING
    state.to_set = [[category, value] for category, value in asked if value]
    return _next(state)


def configured(
    state: State, request: AgentRequest, quirks: Quirks, response: Response
) -> list[Action]:
    """Go on with the next option; the answer lists them all anew."""
    raise_error(response.error, state, _doing(state))
    state.options = options.offered(response.result) or state.options
    return _next(state)


def _doing(state: State) -> str:
    category, wanted = state.setting or ("an option", "")
    return f"cannot set {category.replace('thought_level', 'effort')} to {wanted!r}"


def _next(state: State) -> list[Action]:
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
    if option is None:
        return _set_without_option(state, category, wanted)
    value = options.value_for(option, wanted)
    if value == option.get("currentValue"):
        return None
    params = messages.set_option(session, str(option["id"]), value)
    return call(state, messages.SET_OPTION, params)


def _set_without_option(state: State, category: str, wanted: str) -> Action | None:
    """The same for agents from before models and modes were options."""
    session = str(state.session)
    if category == options.MODEL:
        return call(state, messages.SET_MODEL, messages.set_model(session, wanted))
    if category == options.MODE and state.mode is not None:
        if wanted == state.mode:
            return None
        return call(state, messages.SET_MODE, messages.set_mode(session, wanted))
    raise NoSessionError(f"{_doing(state)}: the agent does not offer it", "not_offered")


def current_mode(result: Mapping[str, Any]) -> str | None:
    """The mode that a session is in; None where it has none."""
    modes = result.get("modes")
    mode = modes.get("currentModeId") if isinstance(modes, dict) else None
    return mode if isinstance(mode, str) else None
