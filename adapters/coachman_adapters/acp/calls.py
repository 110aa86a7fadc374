"""Our requests to the agent, and the way out when it will not talk."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.acp import frames
from coachman_adapters.acp.state import State
from coachman_adapters.conversation import Write
from coachman_adapters.opening import NoSessionError

UNTOLD = "Internal error"


def call(state: State, method: str, params: Mapping[str, Any]) -> Write:
    """Send a request and remember that its answer is due."""
    number = state.next_id
    state.next_id += 1
    state.requests[str(number)] = method
    return Write(frames.request(number, method, params))


def reported(error: Mapping[str, Any], state: State, doing: str = "") -> dict[str, Any]:
    """The agent's own error: code and data untouched, the message with what to do."""
    message = _message(error)
    if doing:
        message = f"{doing}: {message}"
    if error.get("code") == frames.AUTH_REQUIRED:
        ways = f" ({', '.join(state.login)})" if state.login else ""
        message += f": log in with the agent's own CLI{ways}"
    return texts.fit({**error, "message": message})


def raise_error(error: Mapping[str, Any] | None, state: State, doing: str = "") -> None:
    """Raise `NoSessionError` with the agent's error, if it answered with one."""
    if error is not None:
        raise NoSessionError.reported(reported(error, state, doing))


def _message(error: Mapping[str, Any]) -> str:
    """What happened. Where agents only call it a fault of their own, the data has it."""
    message, data = str(error["message"]), error.get("data")
    if message != UNTOLD or not isinstance(data, dict):
        return message
    details = data.get("details") or data.get("message")
    return details if isinstance(details, str) else message
