"""A command in a run's sandbox beside its agent, in a keeper of its own: setup, check, epilogue."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field

from ... import durable, keeper
from ...evidence import rawlogs
from ..keepers.link import KeeperLink
from ..keepers.starting import KeeperError, keeper_alive, kill_orphans, launch, read_exit
from ..preparing.launching import launch_record
from ..preparing.prepare import Launch
from ..services import Services

if TYPE_CHECKING:
    from ..run import Run

RETRY_S = 0.05
OUTPUT_BYTES = 16 * 1024
# Both streams in one, in the order in which they were written.
MERGED = 'exec 2>&1; exec /bin/sh -c "$1"'


@define
class Watcher:
    """Waits for one thing: that the keeper has nothing more to say."""

    over: trio.Event = field(factory=trio.Event)

    def output(self, stdout: int, stderr: int) -> None:
        pass

    def storage(self, error: str | None, number: int | None) -> None:
        pass

    def network(self, size: int) -> None:
        pass

    def exited(self, record: dict[str, Any]) -> None:
        self.over.set()

    def gone(self, evicted: bool) -> None:
        self.over.set()


async def start(services: Services, planned: Launch, path: Path, due_s: float) -> None:
    """Start ``planned`` in ``path``, to be over at ``due_s``. Raises KeeperError, OSError."""
    await trio.to_thread.run_sync(durable.make_directory, path)
    record = launch_record(planned, services, path, due_s)
    lock = os.path.join(path, keeper.LOCK_NAME)
    # Its logs are masked with the agent's: its keeper has nothing to keep for that.
    await launch({**record, "stdin": "null", "mask": []}, lock, services.python)


async def until_over(run: "Run", path: Path) -> dict[str, Any] | None:
    """Wait for its end; its exit.json, None where nobody can say how it ended.

    Raises KeeperError where something of it cannot be ended.
    """
    while keeper_alive(path) and read_exit(path) is None:
        watcher = Watcher()
        try:
            link = await KeeperLink.attach(path, run.services.generation, watcher, run.nursery)
        except KeeperError:
            # It is about to listen, or about to be gone.
            await trio.sleep(RETRY_S)
            continue
        await watcher.over.wait()
        link.close()
    exit = read_exit(path)
    if exit is None:
        # Its keeper was killed, perhaps before its sandbox would have died with it.
        await trio.to_thread.run_sync(kill_orphans, path)
    return exit


def shell(what: str, command: str) -> tuple[str, ...]:
    """The words that let a shell run ``command``; ``what`` it is shows in a list of processes."""
    return ("/bin/sh", "-c", MERGED, what, command)


def record_of(path: Path, what: str, error: str | None) -> dict[str, Any]:
    """What is known of a command that is over. Blocks."""
    exit = read_exit(path)
    if exit is None:
        why = error or f"the {what} was killed"
        return {"exit": None, "signal": None, "duration_s": None, "output": "", "error": why}
    logs = sorted(path.glob("stdout.*"), key=lambda log: int(log.suffix[1:]))
    output = rawlogs.tail(logs, OUTPUT_BYTES).decode("utf-8", "replace")
    took_s = exit.get("ended_boottime_s", 0) - exit.get("started_boottime_s", 0)
    found = {"exit": exit.get("exit_code"), "signal": exit.get("signal")}
    found |= {"duration_s": round(took_s, 3), "output": output}
    found["truncated"] = exit.get("stdout_bytes", 0) > OUTPUT_BYTES
    if exit.get("ended_by") == "deadline":
        return {**found, "exit": None, "error": f"the {what} was not done after {took_s:.0f} s"}
    return {**found, **({"error": exit["error"]} if "error" in exit else {})}
