"""How a turn ended, out of a result line: its ``subtype`` alone tells little of the truth."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import texts
from coachman_adapters.claude.state import State
from coachman_adapters.conversation import TurnEnded

# Ends of turns that the CLI itself began, to tell the model what became of a task.
NOT_PROMPTED = frozenset({"task-notification"})
LOGIN = "log in with `claude`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"
_STOPS = {"max_tokens": "max_tokens", "refusal": "refusal"}


def is_prompted(result: Mapping[str, Any]) -> bool:
    """Whether ``result`` ends a turn that a prompt began."""
    origin = result.get("origin")
    return not isinstance(origin, dict) or origin.get("kind") not in NOT_PROMPTED


def ended(result: Mapping[str, Any], state: State) -> TurnEnded:
    """The terminal record. After our cancel, any end confirms it."""
    aborted = str(result.get("terminal_reason")).startswith("aborted")
    if state.cancelled or aborted:
        return TurnEnded("cancelled")
    if result.get("stop_reason") in _STOPS:
        return TurnEnded(_STOPS[result["stop_reason"]])
    if result.get("api_error") == "max_output_tokens":
        return TurnEnded("max_tokens")
    if result.get("subtype") == "error_max_turns":
        return TurnEnded("max_turn_requests")
    if result.get("subtype") == "success" and result.get("is_error") is False:
        return TurnEnded("end_turn")
    return TurnEnded("error", error(result, state))


def error(result: Mapping[str, Any], state: State, doing: str = "") -> dict[str, Any]:
    """{message, code, data?} in the CLI's own words, and what helps where it is not logged in."""
    why = _text(result, "api_error_type", "terminal_reason", "subtype") or "no_stop_reason"
    code = state.api_error if state.api_error not in (None, "unknown") else why
    message = _message(result)
    if code == "authentication_failed":
        message = f"{message}: {LOGIN}"
    data = {
        "status": result.get("api_error_status"),
        "type": _text(result, "api_error_type"),
        "limit": state.limit,
    }
    known = {name: value for name, value in data.items() if value is not None}
    told = {"message": f"{doing}: {message}" if doing else message, "code": code}
    return texts.fit({**told, **({"data": known} if known else {})})


def _message(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    listed = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    said = _text(result, "result") or "; ".join(listed)
    return said or "the agent ended the turn without saying how"


def _text(result: Mapping[str, Any], *names: str) -> str | None:
    found = (result.get(name) for name in names)
    return next((value for value in found if isinstance(value, str) and value), None)
