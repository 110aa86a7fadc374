"""``coachman daemon install`` and ``uninstall``: the daemon as a service of the user manager."""

import sys

from .. import service
from ..errors import CoachmanError, UsageError
from ..wire import EXIT_OK
from .daemon import leave, refuse_socket
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .console import Console

LINGER = ["loginctl", "enable-linger"]
ENABLE = ["systemctl", "--user", "enable", "--now", service.SOCKET]
RELOAD = ["systemctl", "--user", "daemon-reload"]


def install(console: "Console", now: bool) -> int:
    """Write the units, and let the user manager listen from the next login on, or from now."""
    _refuse_elsewhere(console, "install")
    units = list(service.write_units(sys.executable, console.env))
    done: dict[str, Any] = {
        "units": [{"path": path, "changed": changed} for path, changed in units],
        "enabled": service.SOCKET,
        "listens": False,
    }
    try:
        service.manage(console.env, "daemon-reload")
        service.manage(console.env, "enable", service.SOCKET)
        if now:
            _take_over(console, any(changed for _, changed in units))
    except service.NoManagerError as error:
        raise _unmanaged(error, [path for path, _ in units]) from None
    done["listens"] = service.is_active(console.env, service.SOCKET)
    done["next"] = [LINGER] if done["listens"] else [ENABLE, LINGER]
    _tell(console, done)
    return EXIT_OK


def _refuse_elsewhere(console: "Console", action: str) -> None:
    refuse_socket(console, action)
    if console.env.get("COACHMAN_STATE_DIR"):
        raise UsageError(
            f"cannot {action} a daemon with a state directory of its own",
            hint="the service is the one that clients find without being told: unset"
            " COACHMAN_STATE_DIR",
        )


def _take_over(console: "Console", changed: bool) -> None:
    """Listen through systemd, whoever listens now; runs go on meanwhile."""
    env = console.env
    if service.is_active(env, service.SERVICE):
        if changed:
            # Not in place: it would come back with the interpreter that it was started with.
            service.manage(env, "restart", service.SERVICE)
    elif not service.is_active(env, service.SOCKET):
        leave(console, "detach")
    service.manage(env, "start", service.SOCKET)


def _unmanaged(error: CoachmanError, paths: list[str]) -> CoachmanError:
    return CoachmanError(
        f"cannot enable {service.SOCKET}: {error.message}",
        name=error.name,
        hint=f"the units are written: {', '.join(paths)}; enable them once you have logged in"
        " through systemd",
        exit_code=error.exit_code,
        next=[RELOAD, ENABLE, LINGER],
    )


def _tell(console: "Console", done: "dict[str, Any]") -> None:
    if console.json:
        console.document(done)
    elif not console.quiet:
        for unit in done["units"]:
            console.line(f"{'wrote' if unit['changed'] else 'unchanged:'} {visible(unit['path'])}")
        when = "listens now and at each login" if done["listens"] else "listens from the next login"
        console.line(f"{service.SOCKET} {when}; the first client starts the daemon")
        if not done["listens"]:
            console.line(f"  next: {' '.join(ENABLE)}   to listen now")
        console.line(f"  next: {' '.join(LINGER)}   so that runs outlive your last logout")


def uninstall(console: "Console") -> int:
    """Let the daemon go, whose runs go on, and remove the units."""
    _refuse_elsewhere(console, "uninstall")
    left = leave(console, "detach") if service.is_installed(console.env) else None
    try:
        if service.is_installed(console.env):
            service.manage(console.env, "disable", "--now", service.SOCKET, service.SERVICE)
        removed = service.remove_units(console.env)
        service.manage(console.env, "daemon-reload")
    except service.NoManagerError:
        # Then nothing of it is loaded either.
        removed = service.remove_units(console.env)
    going_on = left["going_on"] if left else []
    if console.json:
        console.document({"removed": removed, "going_on": going_on})
    elif not console.quiet:
        for path in removed:
            console.line(f"removed {visible(path)}")
        if not removed:
            console.line("nothing is installed")
        if going_on:
            handles = ", ".join(visible(handle) for handle in going_on)
            console.line(f"  {len(going_on)} going on without it: {handles}")
            console.line("  next: coachman daemon start")
    return EXIT_OK
