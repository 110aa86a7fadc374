"""What of a caller's environment goes along: to a run, and to a daemon it starts."""

from collections.abc import Iterable, Mapping

# Where programs are, how the network is reached, whom to trust, how to speak.
_ALWAYS = frozenset(
    {
        "PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "LANG",
        "LANGUAGE",
        "TZ",
    }
    | {
        spelled
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")
        for spelled in (name, name.upper())
    }
)
_LOCALE_PREFIX = "LC_"

# Variables by which an agent, or a service manager, marks its children: a daemon
# that inherited them would pass for one.
_ENCLOSING = frozenset(
    {
        "CLAUDECODE",
        "AI_AGENT",
        "NOTIFY_SOCKET",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
        "COACHMAN_RUN",
        "COACHMAN_TASK",
        "COACHMAN_OUTPUT",
        "COACHMAN_INPUTS",
        "COACHMAN_SCRATCH",
        "COACHMAN_DEADLINE",
    }
)
_ENCLOSING_PREFIXES = (
    "CLAUDE_CODE_",
    "CLAUDE_PLUGIN_",
    "CODEX_",
    "GEMINI_CLI",
    "OPENCODE",
    "COPILOT_",
    "CURSOR_",
    "QWEN_CODE",
    "GOOSE_",
    "LISTEN_",
)


def carried(env: Mapping[str, str], declared: Iterable[str]) -> dict[str, str]:
    """The part of ``env`` that `run.start` carries for an agent that declared names.

    Values that are no UTF-8 stay behind: the wire could not hold them.
    """
    wanted = _ALWAYS.union(declared)
    return {
        name: value
        for name, value in env.items()
        if (name in wanted or name.startswith(_LOCALE_PREFIX)) and _is_utf8(value)
    }


def for_daemon(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` without the marks of an agent that this process may run under."""
    return {
        name: value
        for name, value in env.items()
        if name not in _ENCLOSING and not name.startswith(_ENCLOSING_PREFIXES)
    }


def _is_utf8(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
