"""``coachman daemon reindex``: the list of ended runs made anew, with a daemon or without one."""

from ..errors import DaemonNotRunning
from ..wire import EXIT_OK
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .console import Console


def reindex(console: "Console") -> int:
    """Let the daemon do it; where none runs, the daemon's program does it and leaves."""
    done: Any
    try:
        done = console.client().daemon.reindex()
    except DaemonNotRunning:
        from ..autostart import ask_program

        if console.socket or console.env.get("COACHMAN_SOCKET"):
            raise
        done = ask_program(console.env, "--reindex", "make the index anew")
    if console.json:
        console.document(done)
    elif not console.quiet:
        runs = "1 run" if done["runs"] == 1 else f"{done['runs']} runs"
        console.line(f"indexed {runs}")
        for found in done["unreadable"]:
            console.line(f"  {visible(found['run'])}: {visible(found['why'])}")
    return EXIT_OK
