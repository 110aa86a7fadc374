"""Which variables cross into a sandbox, and under which value."""

from collections.abc import Mapping

from . import layout

LOCALE_NAMES = ("LANG", "LANGUAGE", "TZ")
LOCALE_PREFIX = "LC_"
PROXY_NAMES = (
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
)
# Variables that name one file of certificates: inside they all name our bundle.
CA_FILE_NAMES = (
    "SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "AWS_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "DENO_CERT",
    "CARGO_HTTP_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "BUN_CA_BUNDLE_PATH",
)

# What an agent's session leaves in its children's environment: a daemon started
# from one must not hand it to other agents, which would think themselves nested.
SESSION_NAMES = ("AI_AGENT", "CLAUDECODE")
SESSION_PREFIXES = (
    "CLAUDE_CODE_",
    "CLAUDE_PLUGIN_",
    "CODEX_",
    "COPILOT_",
    "CURSOR_",
    "GEMINI_CLI",
    "GOOSE_",
    "OPENCODE",
    "QWEN_CODE",
)

# Git inside works on a tree whose owner may look foreign, and must not try to
# refresh an index that it cannot write.
GIT_VARIABLES = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_OPTIONAL_LOCKS": "0",
}


def crossing(caller: Mapping[str, str], *, named: bool = True) -> dict[str, str]:
    """The part of a caller's environment that every agent gets: locale, time zone, proxies, CA.

    Unless its run is ``named``, the time zone stays outside.
    """
    crossed = {
        name: value
        for name, value in caller.items()
        if name in LOCALE_NAMES or name in PROXY_NAMES or name.startswith(LOCALE_PREFIX)
    }
    if not named:
        crossed.pop("TZ", None)
    bundles = [name for name in CA_FILE_NAMES if caller.get(name)]
    if bundles:
        # Node reads no system store, the others fall back to theirs.
        crossed |= dict.fromkeys([*bundles, "NODE_EXTRA_CA_CERTS"], layout.CA_BUNDLE)
    return crossed


# What a program needs to find its user's own files and programs.
NATIVE_NAMES = (
    *("HOME", "PATH", "USER", "LOGNAME", "SHELL", "TMPDIR"),
    *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
)


def native(caller: Mapping[str, str]) -> dict[str, str]:
    """What an agent on the host gets besides: where the user's own things are."""
    files = {name: caller[name] for name in (*NATIVE_NAMES, *CA_FILE_NAMES) if name in caller}
    return {"TERM": "dumb", "NO_COLOR": "1", **files}


def scrub(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the marks of an agent's session it may have been started from."""
    return {
        name: value
        for name, value in env.items()
        if name not in SESSION_NAMES and not name.startswith(SESSION_PREFIXES)
    }


def run_variables(
    run: str, task: str, deadline_ms: int | None, *, named: bool = True
) -> dict[str, str]:
    """What an agent is told about its run; ``deadline_ms`` is milliseconds since the epoch.

    Unless it is ``named``, neither which run nor which task it is.
    """
    told = {"COACHMAN_RUN": run, "COACHMAN_TASK": task} if named else {}
    if deadline_ms is not None:
        told["COACHMAN_DEADLINE"] = str(deadline_ms)
    return told


def delegate_variables(depth: int, children: int) -> dict[str, str]:
    """What an agent is told that may start runs itself; without levels below, only ask."""
    granted = f"depth={depth},children={children}"
    return {"COACHMAN_SOCKET": layout.DELEGATE_SOCKET, "COACHMAN_DELEGATE": granted}


def guest_environment(
    user: str, plain: Mapping[str, str], secret: Mapping[str, str], path: tuple[str, ...] = ()
) -> dict[str, str]:
    """The whole environment inside. What describes the sandbox itself cannot be overridden."""
    defaults = {"LANG": "C.UTF-8", "TERM": "dumb", "NO_COLOR": "1", "SHELL": "/bin/sh"}
    fixed = {
        "HOME": layout.HOME,
        "PATH": ":".join(dict.fromkeys([*path, *layout.PATH_DIRECTORIES])),
        "TMPDIR": layout.TMP,
        "USER": user,
        "LOGNAME": user,
        "COACHMAN_OUTPUT": layout.OUTPUT,
        "COACHMAN_INPUTS": layout.INPUTS,
        "COACHMAN_SCRATCH": layout.SCRATCH,
        **GIT_VARIABLES,
    }
    return {**defaults, **plain, **secret, **fixed}
