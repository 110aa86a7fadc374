"""``coachman status``: the daemon, its load, and whether it may start runs."""

from ..wire import EXIT_OK
from .durations import clock, spoken
from .options import Command
from .render import size
from .visible import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..records import ProviderLimit
    from ..results import DaemonStatus
    from .console import Console
    from .options import Arguments

COMMAND = Command("status", "Tell how the daemon is; exits 69 when none is running.")


def main(console: "Console", arguments: "Arguments") -> int:
    """Print the daemon's facts."""
    status = console.client().daemon.status()
    if console.json:
        console.document(status)
    elif not console.quiet:
        for line in _lines(status):
            console.line(line)
    return EXIT_OK


def _lines(status: "DaemonStatus") -> "Iterator[str]":
    up = spoken(status["uptime_s"])
    yield f"coachmand {visible(status['version'])}, pid {status['pid']}, up {up}"
    before = status.get("before")
    if before and not before["orderly"]:
        yield f"  before    {visible(before['message'])}"
    yield f"  socket    {visible(status['socket'])}"
    yield f"  state     {visible(status['state_dir'])}"
    runs = [f"{count} {visible(state)}" for state, count in status["runs"].items() if count]
    most = status["capacity"].get("max_active")
    room = f" (at most {most} at once)" if most is not None else ""
    yield f"  runs      {', '.join(runs) or 'none'}{room}"
    if waiting := status.get("waiting"):
        asks = "1 question waits" if waiting == 1 else f"{waiting} questions wait"
        yield f"  answers   {asks}: coachman permissions"
    for limit in status.get("limits") or ():
        yield f"  limit     {_limit(limit)}"
    storage = status["storage"]
    reason = f": {visible(storage['reason'])}" if storage.get("reason") else ""
    free = f", {size(storage['free_bytes'])} free" if storage.get("free_bytes") else ""
    if storage.get("free_bytes", 0) < storage.get("floor_bytes", 0):
        free += f", less than the {size(storage['floor_bytes'])} that a run needs: coachman cleanup"
    yield f"  storage   {visible(storage['state'])}{reason}{free}"
    yield from _boundary(status)
    for finding in status.get("findings") or ():
        yield f"  finding   {visible(finding['kind'])} {visible(finding['path'])}:"
        yield f"            {visible(finding['why'])}; {visible(finding['remedy'])}"


def _limit(limit: "ProviderLimit") -> str:
    whose = " of ".join(visible(limit[name]) for name in ("provider", "agent") if limit[name])
    runs = "1 run" if limit["queued"] == 1 else f"{limit['queued']} runs"
    waits = f": {runs} wait in the queue" if limit["queued"] else ""
    return f"{whose} takes no more until {clock(limit['until'])}{waits}"


def _boundary(status: "DaemonStatus") -> "Iterator[str]":
    boundary = status["boundary"]
    bwrap = boundary.get("bwrap") or {}
    if boundary["ok"]:
        facts = f"{visible(bwrap.get('version') or '')} ({visible(bwrap.get('source') or '')})"
        yield f"  boundary  ok: bubblewrap {facts}, {visible(bwrap.get('path') or '')}"
        return
    yield f"  boundary  unavailable: {visible(boundary.get('cause') or 'the probe failed')}"
    able = {need for need, found in (boundary.get("needs") or {}).items() if found["ok"]}
    if able:
        yield f"            only with {'--network' if 'walls' in able else '-p'} host do runs start"
    if boundary.get("remedy"):
        yield f"            {visible(boundary['remedy'])}"
