"""Where client and daemon meet: state directory, control socket, configuration.

Pure functions of an environment, so that client, shell wrapper and daemon
always agree. No path is created here.
"""

from collections.abc import Mapping

SOCKET_NAME = "control.sock"
# Where systemd's tools are. PATH is not asked, which may lead into what a repository brings along.
TOOLS_PATH = ":".join(
    (
        *("/usr/bin", "/bin", "/usr/local/bin"),
        *("/run/current-system/sw/bin", "/run/current-system/profile/bin"),
    )
)


def home(env: Mapping[str, str]) -> str:
    """The user's home directory; the password database answers where HOME does not."""
    if env.get("HOME"):
        return env["HOME"]
    import os
    import pwd

    return pwd.getpwuid(os.getuid()).pw_dir


def state_dir(env: Mapping[str, str]) -> str:
    """The directory that holds everything durable (``COACHMAN_STATE_DIR``, else XDG)."""
    if env.get("COACHMAN_STATE_DIR"):
        return env["COACHMAN_STATE_DIR"]
    base = env.get("XDG_STATE_HOME") or home(env) + "/.local/state"
    return base + "/coachman"


def socket_path(env: Mapping[str, str]) -> str:
    """The control socket: ``COACHMAN_SOCKET``, the runtime directory, or the state directory.

    A state directory of one's own brings its socket along, so that two daemons
    of one user never share one.
    """
    if env.get("COACHMAN_SOCKET"):
        return env["COACHMAN_SOCKET"]
    if env.get("XDG_RUNTIME_DIR") and not env.get("COACHMAN_STATE_DIR"):
        return env["XDG_RUNTIME_DIR"] + "/coachman/" + SOCKET_NAME
    return state_dir(env) + "/" + SOCKET_NAME


def config_path(env: Mapping[str, str]) -> str:
    """The configuration file (``COACHMAN_CONFIG``, else XDG); it need not exist."""
    if env.get("COACHMAN_CONFIG"):
        return env["COACHMAN_CONFIG"]
    base = env.get("XDG_CONFIG_HOME") or home(env) + "/.config"
    return base + "/coachman/config.toml"
