"""``coachman daemon``: start, stop, restart, logs, reindex, install, uninstall."""

import os
import time

from .. import service
from ..client import connect
from ..errors import CoachmanError, ConnectionLostError, DaemonNotRunning, UsageError
from ..paths import state_dir
from ..wire import EXIT_OK
from .durations import some_seconds
from .options import Command, Option
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .console import Console
    from .options import Arguments

MODES = ("detach", "drain", "stop")
COMMAND = Command(
    "daemon start|stop|restart|logs|reindex|install|uninstall [OPTIONS]",
    "Start the daemon, stop it (its runs go on), let it come back as the build on disk, print the\n"
    "end of its log, make the list of ended runs anew from their files, or make it a service of\n"
    "systemd's user manager.",
    Option("--drain", "stop, restart: wait until no turn runs"),
    Option("--runs", "stop: end the runs first"),
    Option("--timeout", "stop: leave after this long, whatever is not over yet", "DURATION"),
    Option(
        "--mode",
        "stop, restart: detach (default), drain (as --drain) or stop (as --runs)",
        "MODE",
        choices=MODES,
    ),
    Option("-n --lines", "logs: how many lines (default 200)", "N"),
    Option("--now", "install: listen now, not only from the next login on"),
    operands=(1, 1),
    missing="say start, stop, restart, logs, reindex, install or uninstall",
)
LEAVE_TIMEOUT_S = 30.0
LOG_LINES = 200
_LOG_TAIL_BYTES = 1024 * 1024
_POLL_S = 0.05


def main(console: "Console", arguments: "Arguments") -> int:
    """Dispatch on the operand."""
    action = arguments.operands[0]
    mode = _mode(arguments)
    timeout = arguments.text("timeout")
    limit_s = some_seconds(timeout, "daemon --timeout") if timeout is not None else None
    match action:
        case "start":
            return _start(console)
        case "stop":
            return _stop(console, mode, limit_s)
        case "restart":
            return _restart(console, mode)
        case "logs":
            return _logs(console, arguments.count("lines") or LOG_LINES)
        case "reindex":
            from .reindex import reindex

            return reindex(console)
        case "install":
            from .units import install

            return install(console, arguments.has("now"))
        case "uninstall":
            from .units import uninstall

            return uninstall(console)
    raise UsageError(
        f"cannot daemon {action!r}: {COMMAND.missing}", hint=f"usage: coachman {COMMAND.usage}"
    )


def _mode(arguments: "Arguments") -> str:
    """What is to become of the runs, said in one way only."""
    flags = {"drain": "drain", "runs": "stop"}
    said = {flags[name] for name in flags if arguments.has(name)}
    said |= {mode for mode in (arguments.text("mode"),) if mode is not None}
    if unknown := said - {*MODES}:
        raise UsageError(f"cannot stop with --mode {unknown.pop()!r}: choose {', '.join(MODES)}")
    if len(said) > 1:
        raise UsageError("cannot stop in two ways at once: choose --drain, --runs or neither")
    return said.pop() if said else "detach"


def _start(console: "Console", what: str = "runs already") -> int:
    refuse_socket(console, "start")
    try:
        with connect() as client:
            status = client.daemon.status()
        said: dict[str, Any] = {"ready": True, "socket": status["socket"], "pid": status["pid"]}
    except DaemonNotRunning:
        from ..autostart import start_daemon

        said, what = start_daemon(console.env), "started"
    if console.json:
        console.document(said)
    elif not console.quiet:
        pid = f", pid {said['pid']}" if said.get("pid") else ""
        console.line(f"the daemon {what}{pid}: {visible(said.get('socket'))}")
    return EXIT_OK


def _restart(console: "Console", mode: str) -> int:
    from ..autostart import check_daemon

    refuse_socket(console, "restart")
    # The one that runs is worth more than one that cannot start.
    check_daemon(console.env)
    if _come_back(console, mode):
        return _start(console, "came back")
    leave(console, mode)
    return _start(console)


def _come_back(console: "Console", mode: str) -> bool:
    """Restart the daemon in place; False where there is none, or it is too old for that."""
    try:
        client = connect()
    except DaemonNotRunning:
        return False
    with client:
        patience = None if mode == "drain" else LEAVE_TIMEOUT_S
        try:
            left = client.call("daemon.restart", {"mode": mode}, timeout_s=patience)
        except CoachmanError as error:
            if error.name == "MethodNotFound":
                return False
            raise
        ends = time.monotonic() + LEAVE_TIMEOUT_S
        while client.daemon.status()["instance"] == left["instance"]:
            if time.monotonic() > ends:
                raise _still_there(client.daemon.status()["pid"], LEAVE_TIMEOUT_S)
            time.sleep(_POLL_S)
    return True


def refuse_socket(console: "Console", action: str) -> None:
    unset = ["env", "-u", "COACHMAN_SOCKET"] if console.env.get("COACHMAN_SOCKET") else []
    if console.socket or unset:
        named = "COACHMAN_SOCKET is set" if unset else "--socket is given"
        raise UsageError(
            f"cannot {action} a daemon on a socket of someone's choice: {named}",
            hint="do without it; COACHMAN_STATE_DIR moves state and socket",
            next=[[*unset, "coachman", "daemon", action]],
        )


def _stop(console: "Console", mode: str, limit_s: float | None) -> int:
    left = leave(console, mode, limit_s)
    if console.json:
        console.document(left or {"mode": mode, "going_on": [], "stopped": False})
    elif console.quiet:
        pass
    elif left is None:
        console.line("no daemon runs")
    else:
        going_on = [visible(handle) for handle in left["going_on"]]
        late = "" if left.get("in_time", True) else ", before all was over"
        console.line(f"the daemon stopped{late}")
        if going_on:
            console.line(f"  {len(going_on)} going on without it: {', '.join(going_on)}")
            console.line("  next: coachman daemon start")
    return EXIT_OK


def leave(console: "Console", mode: str, limit_s: float | None = None) -> "Any":
    """Shut the daemon down and wait until it is gone; None where there is none.

    A socket that systemd listens on is stopped as well: the next client would start it again.
    """
    socket_unit = console.socket is None and service.is_active(console.env, service.SOCKET)
    if socket_unit and not service.is_active(console.env, service.SERVICE):
        service.manage(console.env, "stop", service.SOCKET)
        return None
    try:
        client = connect(console.socket)
    except DaemonNotRunning:
        return None
    with client:
        pid = client.daemon.status()["pid"]
        if socket_unit:
            service.manage(console.env, "stop", service.SOCKET)
        left = client.daemon.shutdown(mode, timeout_s=limit_s)
        _wait_until_gone(client.path, pid)
    return left


def _wait_until_gone(path: str, pid: int) -> None:
    ends = time.monotonic() + LEAVE_TIMEOUT_S
    while _alive(pid) or _answers(path):
        if time.monotonic() > ends:
            raise _still_there(pid, LEAVE_TIMEOUT_S)
        time.sleep(_POLL_S)


def _still_there(pid: int, after_s: float) -> CoachmanError:
    return CoachmanError(
        f"cannot stop the daemon: pid {pid} is still there after {after_s:g} s",
        name="Timeout",
        hint="its log says what it waits for: coachman daemon logs",
        next=[["coachman", "daemon", "logs"]],
    )


def _alive(pid: int) -> bool:
    """Whether the process is there; one that only waits to be reaped is not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _answers(path: str) -> bool:
    try:
        connect(path).close()
    except (DaemonNotRunning, ConnectionLostError):
        return False
    return True


def _logs(console: "Console", count: int) -> int:
    if service.is_installed(console.env):
        return _journal(console, count)
    path = os.path.join(state_dir(console.env), "daemon.log")
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()[-count:]
    except OSError as error:
        raise CoachmanError(
            f"cannot read {visible(path)}: {os.strerror(error.errno or 0)}",
            name="NotFound",
            hint="a daemon that was started by hand writes to its own stderr",
        ) from None
    _show(console, path, lines)
    return EXIT_OK


def _journal(console: "Console", count: int) -> int:
    """A service logs to the journal."""
    argv = ("journalctl", "--user", "-u", service.SERVICE, "-n", str(count), "-o", "cat", "-q")
    code, said = service.run(console.env, *argv)
    if code != 0:
        raise CoachmanError(
            f"cannot read the journal: {visible(said.strip()) or f'journalctl exited {code}'}",
            name="NotFound",
            hint="a daemon that was started by hand writes to its own stderr",
        )
    _show(console, None, said.splitlines())
    return EXIT_OK


def _show(console: "Console", path: str | None, lines: list[str]) -> None:
    if console.json:
        console.document({"path": path, "lines": lines})
    else:
        for line in lines:
            console.line(visible(line))
