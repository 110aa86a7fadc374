"""Every type of line a journal holds, and which of them decide something."""

from collections.abc import Mapping
from typing import Any

from coachman_adapters.events import (
    COMMANDS as AGENT_COMMANDS,
)
from coachman_adapters.events import (
    CONVERSATION_EVENTS,
    MESSAGE_CHUNK,
    NOISE,
    NOTICE,
    PLAN,
    STATUS,
    THOUGHT_CHUNK,
    TOOL_CALL,
    TOOL_UPDATE,
    UNKNOWN,
    USER_CHUNK,
)

RUN_STATE = "run.state"
RUN_QUEUED = "run.queued"
RUN_STARTED = "run.started"
RUN_RECOVERED = "run.recovered"
RUN_ENDED = "run.ended"
ATTEMPT_STARTED = "attempt.started"
ATTEMPT_ENDED = "attempt.ended"
RUN_CLOSING = "run.closing"
TURN_STARTED = "turn.started"
TURN_INTERRUPTED = "turn.interrupted"
TURN_ENDED = "turn.ended"
TURN_RECORDED = "turn.recorded"
PROMPT_QUEUED = "prompt.queued"
PROMPT_DROPPED = "prompt.dropped"
SETUP_STARTED = "setup.started"
SETUP_ENDED = "setup.ended"
CHECK_STARTED = "check.started"
CHECK_ENDED = "check.ended"
INPUT = "agent.input"
SESSION = "agent.session"
PERMISSION_REQUESTED = "permission.requested"
PERMISSION_PASSED = "permission.passed"
PERMISSION_RESOLVED = "permission.resolved"
QUESTION_ASKED = "question.asked"
QUESTION_ANSWERED = "question.answered"
USAGE_UPDATED = "usage.updated"
LIMIT_REACHED = "limit.reached"
BUDGET_EXCEEDED = "budget.exceeded"
DEADLINE_WARNED = "deadline.warned"
DEADLINE_EXPIRED = "deadline.expired"
HOST_SUSPENDED = "host.suspended"
NETWORK_DECIDED = "network.decided"
NETWORK_COUNTED = "network.counted"
FEED_FAILED = "feed.failed"
ERROR = "error"

# Synced before anyone is told or any effect follows; the rest within a second. A crash of
# the daemon loses neither. A power cut ends the agents as well: what only replay needs
# then decides nothing.
DECISIVE = frozenset(
    {
        RUN_QUEUED,
        RUN_CLOSING,
        RUN_ENDED,
        ATTEMPT_STARTED,
        TURN_INTERRUPTED,
        TURN_ENDED,
        PROMPT_QUEUED,
        PROMPT_DROPPED,
        PERMISSION_REQUESTED,
        PERMISSION_RESOLVED,
        QUESTION_ASKED,
        QUESTION_ANSWERED,
        DEADLINE_EXPIRED,
        CHECK_ENDED,
        LIMIT_REACHED,
        BUDGET_EXCEEDED,
    }
)
# An input is synced before its bytes leave; this one has none.
SILENT_INPUT = "finish"


def decides(type_: str, members: Mapping[str, Any]) -> bool:
    """Whether a line has to be on the disk before anything follows from it."""
    return type_ in DECISIVE or (type_ == INPUT and members["kind"] != SILENT_INPUT)


# Whoever waits for a run looks again after one of these.
CHANGES = frozenset(
    {
        RUN_STATE,
        RUN_ENDED,
        TURN_ENDED,
        PERMISSION_REQUESTED,
        PERMISSION_RESOLVED,
        QUESTION_ASKED,
        QUESTION_ANSWERED,
        RUN_QUEUED,
        DEADLINE_WARNED,
    }
)

EVENT_TYPES = (
    CONVERSATION_EVENTS
    | DECISIVE
    | {
        INPUT,
        SESSION,
        RUN_STARTED,
        ATTEMPT_ENDED,
        RUN_STATE,
        RUN_RECOVERED,
        TURN_STARTED,
        TURN_RECORDED,
        PERMISSION_PASSED,
        USAGE_UPDATED,
        SETUP_STARTED,
        SETUP_ENDED,
        CHECK_STARTED,
        DEADLINE_WARNED,
        HOST_SUSPENDED,
        NETWORK_DECIDED,
        NETWORK_COUNTED,
        FEED_FAILED,
        ERROR,
    }
)

__all__ = [
    "AGENT_COMMANDS",
    "ATTEMPT_ENDED",
    "ATTEMPT_STARTED",
    "BUDGET_EXCEEDED",
    "CHANGES",
    "CHECK_ENDED",
    "CHECK_STARTED",
    "CONVERSATION_EVENTS",
    "DEADLINE_EXPIRED",
    "DEADLINE_WARNED",
    "DECISIVE",
    "ERROR",
    "EVENT_TYPES",
    "FEED_FAILED",
    "HOST_SUSPENDED",
    "INPUT",
    "LIMIT_REACHED",
    "MESSAGE_CHUNK",
    "NETWORK_COUNTED",
    "NETWORK_DECIDED",
    "NOISE",
    "NOTICE",
    "PERMISSION_PASSED",
    "PERMISSION_REQUESTED",
    "PERMISSION_RESOLVED",
    "PLAN",
    "PROMPT_DROPPED",
    "PROMPT_QUEUED",
    "QUESTION_ANSWERED",
    "QUESTION_ASKED",
    "RUN_CLOSING",
    "RUN_ENDED",
    "RUN_QUEUED",
    "RUN_RECOVERED",
    "RUN_STARTED",
    "RUN_STATE",
    "SESSION",
    "SETUP_ENDED",
    "SETUP_STARTED",
    "SILENT_INPUT",
    "STATUS",
    "THOUGHT_CHUNK",
    "TOOL_CALL",
    "TOOL_UPDATE",
    "TURN_ENDED",
    "TURN_INTERRUPTED",
    "TURN_RECORDED",
    "TURN_STARTED",
    "UNKNOWN",
    "USAGE_UPDATED",
    "USER_CHUNK",
    "decides",
]
