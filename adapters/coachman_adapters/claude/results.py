"""How a turn ended, out of a result line: its ``subtype`` alone tells little of the truth."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import failing, texts
from coachman_adapters.claude.state import State
from coachman_adapters.conversation import TurnEnded

# Ends of turns that the CLI itself began, to tell the model what became of a task.
NOT_PROMPTED = frozenset({"task-notification"})
LOGIN = "log in with `claude`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"
# Where the reason of a failure is told, the closest first, and what tells none.
_REASONS = ("api_error_type", "terminal_reason", "subtype")
_NO_REASON = ("unknown", "completed", "success")
_STOPS = {"max_tokens": "max_tokens", "refusal": "refusal"}


def is_prompted(result: Mapping[str, Any]) -> bool:
    """Whether ``result`` ends a turn that a prompt began."""
    origin = result.get("origin")
    return not isinstance(origin, dict) or str(origin.get("kind")) not in NOT_PROMPTED


def ended(result: Mapping[str, Any], state: State) -> TurnEnded:
    """The terminal record. After our cancel, any end confirms it."""
    aborted = str(result.get("terminal_reason")).startswith("aborted")
    if state.cancelled or aborted:
        return TurnEnded("cancelled")
    stop = _STOPS.get(str(result.get("stop_reason")))
    if stop is not None:
        return TurnEnded(stop)
    if result.get("api_error") == "max_output_tokens":
        return TurnEnded("max_tokens")
    if result.get("subtype") == "error_max_turns":
        return TurnEnded("max_turn_requests")
    if result.get("subtype") == "success" and result.get("is_error") is False:
        return TurnEnded("end_turn")
    rejected = (state.limit or {}).get("status") == "rejected"
    resets = failing.at((state.limit or {}).get("resetsAt")) if rejected else None
    return failing.failed(error(result, state), resets)


def error(result: Mapping[str, Any], state: State, doing: str = "") -> dict[str, Any]:
    """{message, code, data?} in the CLI's own words, and what helps where it is not logged in."""
    named = [state.api_error, *(result.get(name) for name in _REASONS)]
    reasons = (each for each in named if isinstance(each, str) and each not in _NO_REASON)
    code, message = next(reasons, "no_stop_reason"), _message(result)
    if code == "authentication_failed":
        message = f"{message}: {LOGIN}"
    data = {
        "status": result.get("api_error_status"),
        "type": _text(result, "api_error_type"),
        "limit": state.limit,
    }
    known = {name: value for name, value in data.items() if value is not None}
    told = {
        "message": f"{doing}: {message}" if doing else message,
        "code": code or "no_stop_reason",
    }
    return texts.fit({**told, **({"data": known} if known else {})})


def _message(result: Mapping[str, Any]) -> str:
    errors = result.get("errors")
    listed = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    said = _text(result, "result") or "; ".join(listed)
    return said or "the agent ended the turn without saying how"


def _text(result: Mapping[str, Any], name: str) -> str | None:
    value = result.get(name)
    return value if isinstance(value, str) and value else None
