"""What only a client sees: whether it reaches the daemon, who else does, and who starts it."""

import os
import stat

from .. import __version__, service
from ..diagnosis import failed, ok, warning
from ..errors import CoachmanError, DaemonNotRunning
from ..paths import socket_path
from ..wire import EXIT_DENIED, EXIT_NO_DAEMON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..results import Diagnosis
    from .console import Console

LINGERING = "/var/lib/systemd/linger"
BOOTED = "/run/systemd/system"
# What `systemctl is-active` says of a unit; anything else is about the manager.
STATES = ("active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance")


def surroundings(console: "Console", refusal: CoachmanError | None) -> "Iterator[Diagnosis]":
    """Daemon, socket and service, for this client; ``refusal``: why no daemon answered."""
    yield from _daemon(console) if refusal is None else (_unanswered(refusal),)
    yield from _socket(console.socket or socket_path(console.env))
    yield from _service(console.env)


def _daemon(console: "Console") -> "Iterator[Diagnosis]":
    status = console.client().daemon.status()
    about = f"version {status['version']}, pid {status['pid']}, {status['socket']}"
    if status["version"] != __version__:
        text = f"the daemon is version {status['version']}, this client {__version__}"
        restart = ["coachman", "daemon", "restart"]
        yield warning(
            "daemon", "version", text, "let it come back as the build on disk", next=[restart]
        )
    else:
        yield ok("daemon", "answers", about)
    for finding in status["findings"]:
        text = f"{finding['kind']} {finding['path']}: {finding['why']}"
        yield warning("daemon", "finding", text, finding["remedy"])


def _unanswered(refusal: CoachmanError) -> "Diagnosis":
    if refusal.name == "MethodNotFound":
        text = "the daemon is older than this client and examines nothing itself"
        restart = ["coachman", "daemon", "restart"]
        return warning(
            "daemon", "version", text, "let it come back as the build on disk", next=[restart]
        )
    if not isinstance(refusal, DaemonNotRunning):
        code = EXIT_DENIED if refusal.name == "Denied" else EXIT_NO_DAEMON
        return failed("daemon", "answers", refusal.message, refusal.hint or "", exit=code)
    end = refusal.detail.get("last_end") if isinstance(refusal.detail, dict) else None
    if end and not end["orderly"]:
        step = ["coachman", "daemon", "logs"]
        return warning("daemon", "answers", end["message"], "see what it said last", next=[step])
    return ok("daemon", "answers", "none runs; the first run starts one")


def _socket(path: str) -> "Iterator[Diagnosis]":
    """Whoever may enter the socket's directory may try to speak to the daemon."""
    directory = os.path.dirname(path)
    try:
        facts = os.stat(directory)
    except OSError:
        return
    if facts.st_uid != os.geteuid():
        text = f"{directory}, where the socket is, belongs to uid {facts.st_uid}"
        remedy = "name a place of yours: XDG_RUNTIME_DIR or COACHMAN_STATE_DIR"
        yield failed("daemon", "socket", text, remedy, exit=EXIT_DENIED)
    elif stat.S_IMODE(facts.st_mode) & 0o077:
        text = f"others may enter {directory} (mode {stat.S_IMODE(facts.st_mode):o})"
        yield warning("daemon", "socket", text, f"chmod 700 {directory}")
    else:
        yield ok("daemon", "socket", f"{directory} is yours alone")


def _service(env: "Mapping[str, str]") -> "Iterator[Diagnosis]":
    if not service.is_installed(env):
        return
    for unit in (service.SOCKET, service.SERVICE):
        yield _unit(env, unit)
    if os.path.isdir(BOOTED) and not _lingers():
        yield warning(
            "service",
            "lingering",
            "lingering is off: the user manager, the daemon and its runs end with your last login",
            "let the user manager stay",
            next=[["loginctl", "enable-linger"]],
        )


def _unit(env: "Mapping[str, str]", unit: str) -> "Diagnosis":
    import sys

    path = f"{service.directory(env)}/{unit}"
    install = ["coachman", "daemon", "install"]
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            is_ours = file.read() == service.rendered(unit, sys.executable, env)
    except OSError as error:
        text = f"{path} cannot be read: {os.strerror(error.errno or 0)}"
        return warning("service", unit, text, "write it anew", next=[install])
    if not is_ours:
        text = f"{path} is not what this version writes"
        return warning("service", unit, text, "write it anew", next=[install])
    code, said = service.run(env, "systemctl", "--user", "is-active", unit)
    state = (said.strip().splitlines() or ["unknown"])[0]
    if state not in STATES:
        login = "log in through systemd, or set XDG_RUNTIME_DIR=/run/user/$(id -u)"
        return warning("service", unit, f"no user manager tells of {unit}: {state}", login)
    # The service is started by whoever connects to the socket.
    if code != 0 and unit == service.SOCKET:
        start = ["systemctl", "--user", "start", unit]
        return warning("service", unit, f"{unit} is {state}", "have it listen", next=[start])
    if state == "failed":
        logs = ["coachman", "daemon", "logs"]
        return warning("service", unit, f"{unit} is {state}", "see what it said last", next=[logs])
    return ok("service", unit, f"{unit} is {state}")


def _lingers() -> bool:
    import pwd

    return os.path.exists(f"{LINGERING}/{pwd.getpwuid(os.getuid()).pw_name}")
