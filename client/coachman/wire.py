"""The names of the wire: plain data that client and daemon share.

Source of truth for the API version, the error names and codes, the limits a
client may rely on, and the exit codes of the command line.
"""

API_VERSIONS = (1,)

# JSON-RPC error codes by the name that callers switch on (``data.name``).
ERROR_CODES = {
    "ParseError": -32700,
    "InvalidRequest": -32600,
    "MethodNotFound": -32601,
    "InvalidParams": -32602,
    "InternalError": -32603,
    "NotFound": -32001,
    "Conflict": -32002,
    "Denied": -32003,
    "Timeout": -32004,
    "Busy": -32005,
    "AgentFailed": -32006,
    "BoundaryUnavailable": -32007,
    "Degraded": -32008,
    "Cancelled": -32800,
}

MAX_REQUEST_LINE_BYTES = 16 * 1024 * 1024
MAX_REQUESTS_IN_FLIGHT = 64
MAX_UNSENT_BYTES = 1024 * 1024
MAX_EVENT_BYTES = 256 * 1024

# The same for a run that asks over its own socket, and how many connections that takes.
DELEGATE_REQUEST_LINE_BYTES = 1024 * 1024
DELEGATE_REQUESTS_IN_FLIGHT = 8
DELEGATE_CONNECTIONS = 4
# Files that are handed over as descriptors, at once on one connection.
DELEGATE_DESCRIPTORS = 64
MAX_HANDED_BYTES = 1 << 30

# What a page or a text holds unless more is asked for.
FINAL_MESSAGE_BYTES = 32 * 1024
LOG_LINES = 200
LIST_ROWS = 100

RUN_STATES = (
    "queued",
    "preparing",
    "active",
    "waiting",
    "parked",
    "checking",
    "stopping",
    "ended",
)
OUTCOMES = (
    "succeeded",
    "empty",
    "refused",
    "truncated",
    "blocked",
    "limited",
    "over_budget",
    "check_failed",
    "failed",
    "timed_out",
    "cancelled",
    "lost",
)
PERMISSION_MODES = ("allow", "ask", "deny")
# Kinds of tools, as rules name them.
TOOL_KINDS = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
)

# Exit codes: below 64 about the run, from 64 about coachman.
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_TOKEN_LIMIT = 3
EXIT_TURN_LIMIT = 4
EXIT_BLOCKED = 5
EXIT_EMPTY = 6
EXIT_OVER_BUDGET = 7
EXIT_CHECK_FAILED = 8
EXIT_LOST = 9
EXIT_ATTENTION = 10
EXIT_STILL_RUNNING = 11
EXIT_USAGE = 64
EXIT_NOT_FOUND = 66
EXIT_NO_DAEMON = 69
EXIT_INTERNAL = 70
EXIT_BOUNDARY = 71
EXIT_STORAGE = 74
EXIT_BUSY = 75
EXIT_STATE = 76
EXIT_DENIED = 77
EXIT_CONFIG = 78
EXIT_TIMED_OUT = 124
EXIT_CANCELLED = 130

EXIT_OF_OUTCOME = {
    "succeeded": EXIT_OK,
    "failed": EXIT_FAILED,
    "refused": EXIT_REFUSED,
    "truncated": EXIT_TOKEN_LIMIT,
    "blocked": EXIT_BLOCKED,
    "empty": EXIT_EMPTY,
    "over_budget": EXIT_OVER_BUDGET,
    "check_failed": EXIT_CHECK_FAILED,
    "lost": EXIT_LOST,
    "limited": EXIT_BUSY,
    "timed_out": EXIT_TIMED_OUT,
    "cancelled": EXIT_CANCELLED,
}

# How a turn ended, for those who wait for no more than that.
EXIT_OF_TURN = {
    "end_turn": EXIT_OK,
    "refusal": EXIT_REFUSED,
    "max_tokens": EXIT_TOKEN_LIMIT,
    "max_turn_requests": EXIT_TURN_LIMIT,
    "cancelled": EXIT_CANCELLED,
    "error": EXIT_FAILED,
    "limited": EXIT_BUSY,
}

EXIT_OF_ERROR = {
    "ParseError": EXIT_INTERNAL,
    "InvalidRequest": EXIT_INTERNAL,
    "MethodNotFound": EXIT_INTERNAL,
    "InvalidParams": EXIT_USAGE,
    "InternalError": EXIT_INTERNAL,
    "NotFound": EXIT_NOT_FOUND,
    "Conflict": EXIT_STATE,
    "Denied": EXIT_DENIED,
    "Timeout": EXIT_STILL_RUNNING,
    "Busy": EXIT_BUSY,
    "AgentFailed": EXIT_CONFIG,
    "BoundaryUnavailable": EXIT_BOUNDARY,
    "Degraded": EXIT_STORAGE,
    "Cancelled": EXIT_CANCELLED,
}


def exit_of_result(outcome: str, stop_reason: str | None) -> int:
    """The exit code that tells a run's outcome; ``truncated`` splits by its stop reason."""
    if outcome == "truncated" and stop_reason == "max_turn_requests":
        return EXIT_TURN_LIMIT
    return EXIT_OF_OUTCOME.get(outcome, EXIT_FAILED)
