"""How the last daemon of a state directory ended, told by what it left on the disk.

A daemon writes down when it begins (``daemon.json``), that it lives (``daemon.alive``) and, where
it still can, how it ends. What it could not write is concluded: from the machine's boot, from its
process, from the interpreter's last words (``daemon.crash``).
"""

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RECORD = "daemon.json"
ALIVE = "daemon.alive"
CRASH = "daemon.crash"
ALIVE_EVERY_S = 10.0
# Ends that somebody wanted; the others are deaths.
ORDERLY = frozenset({"stopped", "signal", "restarting", "lives"})
_MAX_BYTES = 64 * 1024


def last_end(state: str) -> "dict[str, Any] | None":
    """How the last daemon ended; None where there never was one that told.

    ``how`` is stopped, signal, restarting (and never back), refused (to come back), fault,
    crashed, killed, reboot or lives (it is there and does not listen). ``at`` is the moment in
    ms, None where nobody knows; ``orderly`` says that it was wanted; ``message`` is all of it in
    words. Raises nothing.
    """
    record = _read(state, RECORD)
    if record is None:
        return None
    ended = record.get("ended")
    found = dict(ended) if isinstance(ended, dict) else _concluded(state, record)
    found = {"how": str(found.get("how")), "pid": record.get("pid"), **found}
    found["orderly"] = found["how"] in ORDERLY
    found["message"] = _message(found)
    return found


def boot() -> str:
    """The kernel's id of this boot."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_ticks(pid: "object") -> int | None:
    """When a process began, in ticks since the boot; None where it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # What only waits to be reaped is gone.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since the boot."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:
            return next((int(line.split()[1]) for line in file if line[:9] == "oom_kill "), 0)
    except OSError:
        return 0


def _concluded(state: str, record: "Mapping[str, Any]") -> "dict[str, Any]":
    alive = _text(state, ALIVE).split()
    at = int(alive[0]) if alive and alive[0].isdigit() else record.get("started_ms")
    if record.get("boot") != boot():
        return {"how": "reboot", "at": at}
    if record.get("start_ticks") == start_ticks(record.get("pid")):
        return {"how": "lives", "at": None}
    if crash := _text(state, CRASH).strip():
        return {"how": "crashed", "at": at, "why": crash.splitlines()[0]}
    before = int(alive[1]) if alive[1:] and alive[1].isdigit() else oom_kills()
    return {"how": "killed", "at": at, "oom_kills": max(0, oom_kills() - before)}


def _message(found: "Mapping[str, Any]") -> str:
    how, at = found["how"], _clock(found.get("at"))
    by, why = found.get("by"), found.get("why") or "it gave no reason"
    match how:
        case "stopped":
            return f"the last one was stopped{at}{_who(by)}"
        case "signal":
            return f"the last one was ended{at} by {found.get('signal') or 'a signal'}"
        case "restarting":
            return f"the last one left{at} to come back as the build on disk, and did not"
        case "refused":
            return f"the last one could not come back{at}: {why}"
        case "fault":
            return f"the last one failed{at}: {why}"
        case "crashed":
            return f"the last one crashed{at.replace(' at', ' soon after')}: {why}"
        case "reboot":
            return f"the machine was restarted under the last one, which still lived{at}"
        case "lives":
            return f"the last one, pid {found.get('pid')}, is there, but does not listen"
    killed = f"the last one was killed{at.replace(' at', ' soon after')} (signal 9)"
    if found.get("oom_kills"):
        return f"{killed}, it seems for want of memory: the kernel has killed processes since"
    return killed


def _who(by: "object") -> str:
    if not isinstance(by, dict) or by.get("pid") is None:
        return ""
    name = f" ({by['client']})" if by.get("client") else ""
    return f" by pid {by['pid']}{name}"


def _clock(at_ms: "object") -> str:
    """`` at 14:02``, with the day where that was another one."""
    if not isinstance(at_ms, int):
        return ""
    then, now = time.localtime(at_ms / 1000), time.localtime()
    day = "" if then[:3] == now[:3] else "%Y-%m-%d "
    return " at " + time.strftime(day + "%H:%M:%S", then)


def _read(state: str, name: str) -> "dict[str, Any] | None":
    try:
        record = json.loads(_text(state, name))
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _text(state: str, name: str) -> str:
    try:
        with open(os.path.join(state, name), "rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
