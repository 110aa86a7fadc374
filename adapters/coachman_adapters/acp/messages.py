"""What the client says: parameters of the requests and results it sends."""

from collections.abc import Mapping
from typing import Any

PROTOCOL_VERSION = 1
# The version is the dialect's, not the build's: a new build must replay the same bytes.
CLIENT_INFO = {"name": "coachman", "title": "coachman", "version": "1"}
# No files and no terminals: agents use their own tools inside the boundary.
CLIENT_CAPABILITIES: dict[str, Any] = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
}

INITIALIZE = "initialize"
AUTHENTICATE = "authenticate"
SESSION_NEW = "session/new"
SESSION_LOAD = "session/load"
SESSION_RESUME = "session/resume"
SESSION_PROMPT = "session/prompt"
SESSION_CANCEL = "session/cancel"
SESSION_UPDATE = "session/update"
SET_OPTION = "session/set_config_option"
SET_MODEL = "session/set_model"
SET_MODE = "session/set_mode"
REQUEST_PERMISSION = "session/request_permission"
ELICIT = "elicitation/create"
CANCEL_REQUEST = "$/cancel_request"


def initialize(*, forms: bool = False) -> dict[str, Any]:
    """``forms``: somebody is there to fill them in."""
    able: dict[str, Any] = {"elicitation": {"form": {}}} if forms else {}
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {**CLIENT_CAPABILITIES, **able},
        "clientInfo": CLIENT_INFO,
    }


def authenticate(method: str) -> dict[str, Any]:
    return {"methodId": method}


def session_new(cwd: str) -> dict[str, Any]:
    return {"cwd": cwd, "mcpServers": []}


def session_again(session: str, cwd: str) -> dict[str, Any]:
    """For ``session/load`` and ``session/resume`` alike."""
    return {"sessionId": session, "cwd": cwd, "mcpServers": []}


def prompt(session: str, text: str) -> dict[str, Any]:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def cancel(session: str) -> dict[str, Any]:
    return {"sessionId": session}


def set_option(session: str, option: str, value: str) -> dict[str, Any]:
    return {"sessionId": session, "configId": option, "value": value}


def set_model(session: str, model: str) -> dict[str, Any]:
    """For agents from before models were configuration options."""
    return {"sessionId": session, "modelId": model}


def set_mode(session: str, mode: str) -> dict[str, Any]:
    """For agents from before modes were configuration options."""
    return {"sessionId": session, "modeId": mode}


def selected(option: str) -> Mapping[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def cancelled() -> Mapping[str, Any]:
    return {"outcome": {"outcome": "cancelled"}}
