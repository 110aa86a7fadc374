"""Turns that failed and are called "end_turn": the updates that tell of it."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters import failing
from coachman_adapters.acp.quirks import Quirks
from coachman_adapters.acp.state import State
from coachman_adapters.acp.updates import text_of
from coachman_adapters.conversation import TurnEnded

MESSAGE_CHARS = 4096


def hear(state: State, quirks: Quirks, update: Mapping[str, Any]) -> bool:
    """Whether ``update`` is about the failure of the running turn, and nothing else."""
    if quirks.trouble and _says(update, quirks.trouble):
        state.trouble = ""
        return True
    # What the model says has an id; what is said of its failure has none.
    said = update.get("sessionUpdate") == "agent_message_chunk" and "messageId" not in update
    if state.trouble is None or not said:
        return False
    state.trouble = (state.trouble + (text_of(update.get("content")) or ""))[:MESSAGE_CHARS]
    return True


def outcome(state: State, ended: TurnEnded) -> TurnEnded:
    """How the turn really ended; the trouble is over with it."""
    message, state.trouble = state.trouble, None
    if message is None or ended.stop_reason != "end_turn":
        return ended
    told = message.strip() or "the agent failed and did not say why"
    return failing.failed({"message": told, "code": "agent_failed"})


def _says(update: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    found: Any = update
    for name in path[:-1]:
        found = found.get(name) if isinstance(found, Mapping) else None
    return bool(found == path[-1])
