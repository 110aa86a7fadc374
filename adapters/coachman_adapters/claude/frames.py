"""What is written to Claude Code: one JSON object a line."""

from collections.abc import Mapping
from typing import Any

import msgspec

from coachman_adapters.claude.state import State
from coachman_adapters.conversation import Write

INITIALIZE = "initialize"
INTERRUPT = "interrupt"


def control(state: State, subtype: str) -> Write:
    """A control request; its answer is due."""
    number = f"coachman-{state.next_id}"
    state.next_id += 1
    state.requests[number] = subtype
    return _write(
        {"type": "control_request", "request_id": number, "request": {"subtype": subtype}}
    )


def prompt(text: str) -> Write:
    """The user's next message. The session is the process's own, so it need not be named."""
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return _write(
        {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}
    )


def answer(number: str, value: Mapping[str, Any]) -> Write:
    """The answer to one of its control requests."""
    return _response({"subtype": "success", "request_id": number, "response": value})


def refuse(number: str, why: str) -> Write:
    """A control request cannot be served."""
    return _response({"subtype": "error", "request_id": number, "error": why})


def _response(response: Mapping[str, Any]) -> Write:
    return _write({"type": "control_response", "response": response})


def _write(message: Mapping[str, Any]) -> Write:
    return Write(msgspec.json.encode(message) + b"\n")
