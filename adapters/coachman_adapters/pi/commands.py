"""What is written to pi: commands, which it answers by their id, and answers to its dialogs."""

from collections.abc import Mapping
from typing import Any

import msgspec

from coachman_adapters.conversation import Write
from coachman_adapters.pi.state import State

GET_STATE = "get_state"
PROMPT = "prompt"
ABORT = "abort"
GET_EFFORTS = "get_available_thinking_levels"


def command(state: State, kind: str, **members: Any) -> Write:
    """Send a command and remember that its answer is due."""
    number = f"c{state.next_id}"
    state.next_id += 1
    state.requests[number] = kind
    return _write({"id": number, "type": kind, **members})


def answer(dialog: str, value: Mapping[str, Any]) -> Write:
    """The answer to our extension's question."""
    text = msgspec.json.encode(value).decode()
    return _write({"type": "extension_ui_response", "id": dialog, "value": text})


def dismiss(dialog: str) -> Write:
    """Nobody answers this dialog."""
    return _write({"type": "extension_ui_response", "id": dialog, "cancelled": True})


def _write(message: Mapping[str, Any]) -> Write:
    return Write(msgspec.json.encode(message) + b"\n")
