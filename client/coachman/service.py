"""The daemon as a service of systemd's user manager: its two units and who controls them."""

import os

from .errors import CoachmanError
from .wire import EXIT_NO_DAEMON, EXIT_STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOCKET, SERVICE = "coachman.socket", "coachman.service"
# What a daemon that a person started would have inherited, and finds its files by.
_CARRIED = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "COACHMAN_CONFIG")
_ELSEWHERE = ("COACHMAN_STATE_DIR", "COACHMAN_SOCKET")
EXIT_NOT_FOUND = 127
_MARK = "`coachman daemon install` writes"


class NoManagerError(CoachmanError):
    """No user manager answers: there is none here, or this process cannot reach it."""


def directory(env: "Mapping[str, str]") -> str:
    """Where a user's own units lie."""
    from .paths import home

    return (env.get("XDG_CONFIG_HOME") or home(env) + "/.config") + "/systemd/user"


def is_installed(env: "Mapping[str, str]") -> bool:
    """Whether the daemon that ``env`` means is a service of the user manager."""
    elsewhere = any(env.get(name) for name in _ELSEWHERE)
    return not elsewhere and os.path.isfile(f"{directory(env)}/{SOCKET}")


def templates() -> str:
    """The directory of the units as they ship: in the package, or beside it in a checkout."""
    package = os.path.dirname(os.path.abspath(__file__))
    within = os.path.join(package, "systemd")
    return within if os.path.isdir(within) else os.path.join(package, "../../systemd")


def rendered(unit: str, python: str, env: "Mapping[str, str]") -> str:
    """A unit's text for this installation."""
    with open(os.path.join(templates(), unit), encoding="utf-8") as file:
        text = file.read()
    settings = [_quoted(f"{name}={env[name]}") for name in _CARRIED if env.get(name)]
    lines = "".join(f"Environment={setting}\n" for setting in settings)
    start = f"ExecStart={_quoted(python).replace('$', '$$')}"
    return text.replace("ExecStart=@PYTHON@", lines + start)


def _quoted(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def write_units(python: str, env: "Mapping[str, str]") -> "Iterator[tuple[str, bool]]":
    """Write both units; the path of each, and whether it changed. Raises CoachmanError."""
    place = directory(env)
    os.makedirs(place, exist_ok=True)
    for unit in (SOCKET, SERVICE):
        path, text = f"{place}/{unit}", rendered(unit, python, env)
        found = _read(path)
        if found is not None and _MARK not in found:
            raise CoachmanError(
                f"cannot install: {path} is not coachman's",
                name="Conflict",
                hint="move it away, then install again",
                exit_code=EXIT_STATE,
            )
        if found != text:
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(text)
            os.rename(f"{path}.new", path)
        yield path, found != text


def remove_units(env: "Mapping[str, str]") -> list[str]:
    """Remove the units that `write_units` wrote; their paths."""
    paths = [f"{directory(env)}/{unit}" for unit in (SOCKET, SERVICE)]
    written = [path for path in paths if _MARK in (_read(path) or "")]
    for path in written:
        os.unlink(path)
    return written


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


# --- the user manager ---


def manage(env: "Mapping[str, str]", *words: str) -> str:
    """Run ``systemctl --user`` with these words; what it said.

    Raises NoManagerError where no user manager answers, CoachmanError where it refuses.
    """
    code, said = run(env, "systemctl", "--user", *words)
    if code == 0:
        return said
    cause = (said.strip().splitlines() or ["it gave no reason"])[0]
    if code == EXIT_NOT_FOUND or "Failed to connect to" in said or "booted with systemd" in said:
        raise NoManagerError(
            f"cannot reach a user manager of systemd: {cause}",
            name="DaemonNotRunning",
            hint="log in through systemd, or set XDG_RUNTIME_DIR=/run/user/$(id -u)",
            exit_code=EXIT_NO_DAEMON,
        )
    raise CoachmanError(
        f"cannot {' '.join(words)}: {cause}",
        name="DaemonNotRunning",
        hint=f"its last words: journalctl --user -u {SERVICE} -n 20",
        next=[["journalctl", "--user", "-u", SERVICE, "-n", "20", "--no-pager"]],
        exit_code=EXIT_NO_DAEMON,
    )


def is_active(env: "Mapping[str, str]", unit: str) -> bool:
    """Whether a unit of an installed service is up; False where no manager answers."""
    if not is_installed(env):
        return False
    return run(env, "systemctl", "--user", "--quiet", "is-active", unit)[0] == 0


def start(env: "Mapping[str, str]") -> bool:
    """Start socket and daemon if they are installed and a manager is there to do it."""
    if not is_installed(env):
        return False
    try:
        manage(env, "start", SOCKET, SERVICE)
    except NoManagerError:
        return False
    return True


def run(env: "Mapping[str, str]", *argv: str) -> tuple[int, str]:
    """Run one of systemd's tools; its exit code (127: there is none) and all it printed."""
    import shutil

    from .paths import TOOLS_PATH

    program = shutil.which(argv[0], path=TOOLS_PATH)
    if program is None:
        return EXIT_NOT_FOUND, f"{argv[0]} was not found in {TOOLS_PATH}"
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as said:
        try:
            pid = os.posix_spawn(
                program,
                argv,
                {**env, "LC_ALL": "C"},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, write_end, 1),
                    (os.POSIX_SPAWN_DUP2, write_end, 2),
                ],
            )
        finally:
            os.close(write_end)
        text = said.read().decode("utf-8", "replace")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text
