"""The vocabulary that conversations share with the journal and the wire."""

MESSAGE_CHUNK = "agent.message_chunk"
THOUGHT_CHUNK = "agent.thought_chunk"
USER_CHUNK = "user.message_chunk"
TOOL_CALL = "tool.call"
TOOL_UPDATE = "tool.call_update"
PLAN = "agent.plan"
STATUS = "agent.status"
COMMANDS = "agent.commands"
NOTICE = "agent.notice"
NOISE = "agent.noise"
UNKNOWN = "agent.unknown"

CONVERSATION_EVENTS = frozenset(
    {
        MESSAGE_CHUNK,
        THOUGHT_CHUNK,
        USER_CHUNK,
        TOOL_CALL,
        TOOL_UPDATE,
        PLAN,
        STATUS,
        COMMANDS,
        NOTICE,
        NOISE,
        UNKNOWN,
    }
)

OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")

# ``error``: the agent reported a failure; ``limited``: its provider takes no more for now;
# ``cancelled``: it confirmed a cancel.
STOP_REASONS = (
    "end_turn",
    "max_tokens",
    "max_turn_requests",
    "refusal",
    "cancelled",
    "error",
    "limited",
)
# What no agent may call the end of a turn by itself.
OWN_STOP_REASONS = frozenset({"error", "limited"})
