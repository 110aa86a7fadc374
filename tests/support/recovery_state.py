"""A stopped daemon's state, brought to where a crash at a chosen moment would have left it."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coachmand.evidence.rundir import seal_of
from daemon_process import DaemonProcess

Event = dict[str, Any]


def start(daemon: DaemonProcess, repo: Path, prompt: str, **options: Any) -> str:
    """Start a demo run; its id."""
    with daemon.client() as client:
        return client.run.start(prompt, dir=str(repo), **{"agent": "demo", **options})["run"]


def result(daemon: DaemonProcess, run: str, timeout_s: float = 180) -> dict[str, Any]:
    """The run's result, waited for."""
    with daemon.client() as client:
        waited = client.run.wait([run], timeout_s=timeout_s)
        assert waited["met"] == "ended", waited
        return client.run.result(run)


def until_event(daemon: DaemonProcess, run: str, matches: Callable[[Event], bool]) -> Event:
    """The run's first event that matches."""
    with daemon.client() as client, client.events(run) as stream:
        return next(event for event in stream if matches(event))


def until_asked(daemon: DaemonProcess, run: str) -> str:
    """The id of the question that the run comes to wait for."""
    with daemon.client() as client:
        waited = client.run.wait([run], until="attention", timeout_s=120)
        assert waited["met"] == "attention", waited
        return waited["runs"][0]["attention"]["request"]


def directory(daemon: DaemonProcess, run: str) -> Path:
    return daemon.state / "runs" / run


def attempt(daemon: DaemonProcess, run: str, number: int = 1) -> Path:
    return directory(daemon, run) / "attempts" / str(number)


def raw_lines(daemon: DaemonProcess, run: str) -> list[bytes]:
    """The journal's lines, each with its newline."""
    return (directory(daemon, run) / "events.ndjson").read_bytes().splitlines(keepends=True)


def cut(daemon: DaemonProcess, run: str, lines: int, torn_bytes: int = 0) -> None:
    """Leave so many lines of the journal and some bytes of the next, as if more was never said."""
    found = raw_lines(daemon, run)
    kept = b"".join(found[:lines])
    if torn_bytes:
        kept += found[lines][:torn_bytes]
    (directory(daemon, run) / "events.ndjson").write_bytes(kept)
    (directory(daemon, run) / "result.json").unlink(missing_ok=True)
    (daemon.state / "live" / run).write_bytes(b"")


def add(daemon: DaemonProcess, run: str, type_: str, **members: Any) -> None:
    """Write one more line into the journal."""
    path = directory(daemon, run) / "events.ndjson"
    last = json.loads(raw_lines(daemon, run)[-1])
    event = {"type": type_, "seq": last["seq"] + 1, "ts": last["ts"], "run": run, **members}
    with path.open("ab") as file:
        file.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")


def reword(daemon: DaemonProcess, run: str, prompt: str) -> None:
    """Let the run have been started with another prompt."""
    directory(daemon, run).joinpath("prompts", "1.md").write_text(prompt)
    lines = raw_lines(daemon, run)
    queued = json.loads(lines[0])
    lines[0] = json.dumps({**queued, "file": seal_of(prompt.encode())}).encode() + b"\n"
    (directory(daemon, run) / "events.ndjson").write_bytes(b"".join(lines))


def sandbox_pids(daemon: DaemonProcess, run: str, number: int = 1) -> list[int]:
    """Keeper, bwrap and the namespace's init of an attempt."""
    state = json.loads((attempt(daemon, run, number) / "keeper.json").read_bytes())
    sandbox = state.get("sandbox") or {}
    found = (state["pid"], sandbox.get("pid"), sandbox.get("init_pid"))
    return [pid for pid in found if pid]


def living(pids: list[int]) -> list[int]:
    """Those of the processes that are neither gone nor zombies."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found.append(pid)
    return found


def kill_keeper(daemon: DaemonProcess, run: str) -> list[int]:
    """SIGKILL the keeper; the pids of it and its sandbox."""
    pids = sandbox_pids(daemon, run)
    os.kill(pids[0], signal.SIGKILL)
    return pids


def numbered(events: list[Event]) -> list[Event]:
    """What a conversation emitted, without when and where it was journaled."""
    envelope = ("seq", "g", "ts", "run", "deadline", "deadline_boottime_s")
    return [{k: x for k, x in e.items() if k not in envelope} for e in events if "n" in e]


def check_journal(events: list[Event]) -> None:
    """``seq`` without a hole, ``n`` without a repetition, one terminal record, at the end."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    attempts: dict[int, list[int]] = {}
    for event in events:
        if "n" in event:
            attempts.setdefault(event["attempt"], []).append(event["n"])
    for numbers in attempts.values():
        assert numbers == list(range(1, len(numbers) + 1))
    assert [event["type"] for event in events].count("run.ended") == 1
    assert events[-1]["type"] == "run.ended"


def sleep_until(epoch_s: float) -> None:
    """Wait for a moment that only the clock brings."""
    time.sleep(max(0.0, epoch_s - time.time()))


def until(holds: Callable[[], bool], limit_s: float = 60) -> None:
    """Wait until something outside of the daemon is so."""
    ends = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < ends, "it did not come to be in time"
        time.sleep(0.02)


def kill(pid: int) -> None:
    """SIGKILL a process of this test."""
    os.kill(pid, signal.SIGKILL)
