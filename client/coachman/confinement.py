"""Whose sandbox is around this process, as far as it says so, and how to get out of it.

Agents run their shell commands in sandboxes of their own, which block Unix sockets with EPERM:
Codex refuses `connect`, Claude Code the making of the socket.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Agent, the variable that it sets in its sandbox alone, whose that is, what helps.
_KNOWN = (
    (
        "codex",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "Codex's sandbox for commands",
        'run it with escalated permissions (sandbox_permissions "require_escalated"), or have Codex'
        " started with -c sandbox_workspace_write.network_access=true",
    ),
    (
        "claude",
        "SANDBOX_RUNTIME",
        "Claude Code's sandbox for commands",
        "run it with dangerouslyDisableSandbox, or have your user's settings exclude it"
        ' (sandbox.excludedCommands: ["coachman *"]) or allow sockets'
        " (sandbox.network.allowAllUnixSockets: true)",
    ),
)
_UNKNOWN = ("the sandbox around this process", "run coachman outside of it (escalate)")


def around(env: "Mapping[str, str]") -> tuple[str | None, str, str]:
    """The agent that confines this process (None: nobody says so), its sandbox, what helps."""
    for agent, variable, whose, help_ in _KNOWN:
        if env.get(variable):
            return agent, whose, help_
    return (None, *_UNKNOWN)
